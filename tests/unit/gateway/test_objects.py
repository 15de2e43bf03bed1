"""Put, get, head: bytes, headers, ranges, conditions, as boto3 sees them."""

from __future__ import annotations

import base64
import hashlib
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dredge.gateway.chunks import UNSIGNED_TRAILER
from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import aws_chunks, code_of, refused, s3_client, send

BIG = bytes(range(256)) * 4096 * 3  # 3 MiB: streamed both ways

ODD_KEYS = [
    "a b",
    "a+b",
    "a%2Fb",
    "a//b",
    "//a",
    "a/",
    ".hidden",
    "./a",
    "a/../b",
    "ü/ß/日本",
    "a?b=c&d#e",
    "tab\there",
    "quote'\"<>&",
    "*~!$()=@:,;",
    " lead and trail ",
    "data/x,y",
    "e\u0301",
]
PATHS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40
)


@pytest.mark.parametrize("path", ODD_KEYS)
def test_any_key_is_exactly_that_path(lake: Lake, s3: Any, repo: str, path: str) -> None:
    s3.put_object(Bucket=repo, Key=f"main/{path}", Body=path.encode())
    assert s3.get_object(Bucket=repo, Key=f"main/{path}")["Body"].read() == path.encode()
    listed = lake.server.catalog.reading.list_entries(repo, "main").results
    assert [each.path for each in listed] == [path]
    assert s3.list_objects_v2(Bucket=repo, Prefix="main/")["Contents"][0]["Key"] == f"main/{path}"
    s3.delete_object(Bucket=repo, Key=f"main/{path}")
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=repo, Key=f"main/{path}")


@given(path=PATHS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_keys_come_back_as_they_went(lake: Lake, s3: Any, repo: str, path: str) -> None:
    s3.put_object(Bucket=repo, Key=f"main/{path}", Body=b"x")
    assert lake.server.catalog.reading.stat(repo, "main", path).size_bytes == 1
    assert s3.head_object(Bucket=repo, Key=f"main/{path}")["ContentLength"] == 1
    s3.delete_object(Bucket=repo, Key=f"main/{path}")
    assert "Contents" not in s3.list_objects_v2(Bucket=repo, Prefix="main/")


@pytest.mark.parametrize("content", [b"", b"x", BIG], ids=["empty", "small", "big"])
def test_content_type_metadata_and_etag_are_kept(s3: Any, repo: str, content: bytes) -> None:
    made = s3.put_object(
        Bucket=repo, Key="main/a", Body=content, ContentType="text/x-odd", Metadata={"Colour": "sky blue"}
    )
    md5 = hashlib.md5(content).hexdigest()
    assert made["ETag"] == f'"{md5}"'
    for found in (s3.head_object(Bucket=repo, Key="main/a"), s3.get_object(Bucket=repo, Key="main/a")):
        assert found["ETag"] == f'"{md5}"'
        assert found["ContentLength"] == len(content)
        assert found["ContentType"] == "text/x-odd"
        assert found["Metadata"] == {"colour": "sky blue"}
        assert abs(found["LastModified"] - datetime.now(UTC)) < timedelta(minutes=1)
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == content


def test_metadata_is_kept_where_lakefs_keeps_it(lake: Lake, s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"", Metadata={"Colour": "=?UTF-8?B?YmxhdcO8?="})
    assert lake.server.catalog.reading.stat(repo, "main", "a").metadata == {"X-Amz-Meta-colour": "blauü"}
    assert s3.head_object(Bucket=repo, Key="main/a")["Metadata"] == {"colour": "=?UTF-8?B?YmxhdcO8?="}


def test_too_much_metadata_is_refused(s3: Any, repo: str) -> None:
    with refused("MetadataTooLarge", 400):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"", Metadata={"a": "x" * 2048})


def test_objects_are_the_same_through_the_api(lake: Lake, s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/by/s3", Body=b"one")
    lake.http("POST", f"/repositories/{repo}/branches/main/objects", query={"path": "by/api"}, body=b"two")
    assert lake.sdk.objects_api.get_object(repo, "main", "by/s3") == b"one"
    assert s3.get_object(Bucket=repo, Key="main/by/api")["Body"].read() == b"two"


def test_any_ref_can_be_read_and_only_a_branch_written(lake: Lake, s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"1")
    commit = lake.server.catalog.commits.commit(repo, "main", message="m", committer="c")
    lake.server.catalog.tags.create_tag(repo, "v1", "main")
    s3.put_object(Bucket=repo, Key="main/a", Body=b"2")
    for ref, content in {"main": b"2", "v1": b"1", commit.id: b"1", "main@": b"1", "main~0": b"1"}.items():
        assert s3.get_object(Bucket=repo, Key=f"{ref}/a")["Body"].read() == content
    with refused("NoSuchBucket", 404):
        s3.put_object(Bucket=repo, Key="v1/a", Body=b"")
    assert s3.get_object(Bucket=repo, Key="v1/a")["Body"].read() == b"1"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("bytes=0-3", (0, 4)),
        ("bytes=5-5", (5, 6)),
        ("bytes=-4", (96, 100)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-1000", (0, 100)),
    ],
)
def test_a_range_gives_these_bytes(s3: Any, repo: str, wanted: str, found: tuple[int, int]) -> None:
    content = bytes(range(100))
    s3.put_object(Bucket=repo, Key="main/a", Body=content)
    answer = s3.get_object(Bucket=repo, Key="main/a", Range=wanted)
    assert answer["Body"].read() == content[slice(*found)]
    assert answer["ContentRange"] == f"bytes {found[0]}-{found[1] - 1}/100"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    head = s3.head_object(Bucket=repo, Key="main/a", Range=wanted)
    assert head["ContentLength"] == found[1] - found[0]


def test_a_range_of_a_big_object_is_streamed_exactly(s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=BIG)
    answer = s3.get_object(Bucket=repo, Key="main/a", Range="bytes=1000001-2900000")
    assert answer["Body"].read() == BIG[1000001:2900001]


def test_a_range_behind_the_end_is_refused_and_nonsense_gives_all(s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"0123456789")
    for wanted in ("bytes=10-", "bytes=-0"):
        with refused("InvalidRange", 416):
            s3.get_object(Bucket=repo, Key="main/a", Range=wanted)
    for nonsense in ("bytes=5-1", "bytes=0-1,3-4", "lines=1-2"):
        assert s3.get_object(Bucket=repo, Key="main/a", Range=nonsense)["Body"].read() == b"0123456789"


def test_conditions_on_reading(s3: Any, repo: str) -> None:
    etag = s3.put_object(Bucket=repo, Key="main/a", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=repo, Key="main/a")["LastModified"]
    before, after = modified - timedelta(hours=1), modified + timedelta(seconds=1)
    for call, missed in ((s3.get_object, "PreconditionFailed"), (s3.head_object, "412")):
        call(Bucket=repo, Key="main/a", IfMatch=etag)
        call(Bucket=repo, Key="main/a", IfNoneMatch='"other"')
        call(Bucket=repo, Key="main/a", IfModifiedSince=before)
        call(Bucket=repo, Key="main/a", IfUnmodifiedSince=after)
        call(Bucket=repo, Key="main/a", IfMatch=etag, IfUnmodifiedSince=before)
        with refused(missed, 412):
            call(Bucket=repo, Key="main/a", IfMatch='"other"')
        with refused(missed, 412):
            call(Bucket=repo, Key="main/a", IfUnmodifiedSince=before)
        with refused("304", 304):
            call(Bucket=repo, Key="main/a", IfNoneMatch=etag)
        with refused("304", 304):
            call(Bucket=repo, Key="main/a", IfModifiedSince=modified)


def test_if_none_match_writes_only_what_is_new(s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"1", IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"2", IfNoneMatch="*")
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"1"


def test_other_conditions_on_writing_are_refused_not_ignored(lake: Lake, s3: Any, repo: str) -> None:
    etag = s3.put_object(Bucket=repo, Key="main/a", Body=b"1")["ETag"]
    with refused("NotImplemented", 501):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"2", IfMatch=etag)
    with refused("NotImplemented", 501):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"2", IfNoneMatch=etag)
    assert code_of(send(lake, "DELETE", f"/{repo}/main/a", headers={"If-Match": etag})) == "NotImplemented"
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"1"


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_a_body_with_a_trailing_checksum(lake: Lake, s3: Any, repo: str, size: int) -> None:
    content = BIG[:size]
    checksum = zlib.crc32(content).to_bytes(4, "big")

    def put(trailer: bytes) -> str:
        body = aws_chunks(content, 65536, ("x-amz-checksum-crc32", trailer))
        headers = {
            "Content-Encoding": "aws-chunked",
            "X-Amz-Decoded-Content-Length": str(size),
            "X-Amz-Trailer": "x-amz-checksum-crc32",
        }
        return code_of(
            send(lake, "PUT", f"/{repo}/main/a", body=body, payload=UNSIGNED_TRAILER, headers=headers)
        )

    assert put(b"\0\0\0\0") == "BadDigest"
    assert "Contents" not in s3.list_objects_v2(Bucket=repo, Prefix="main/")
    assert put(checksum) == ""
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == content


@pytest.mark.parametrize("size", [100, 3 << 20])
@pytest.mark.parametrize(
    ("payload", "headers", "code"),
    [
        ("0" * 64, {}, "XAmzContentSHA256Mismatch"),
        ("UNSIGNED-PAYLOAD", {"Content-MD5": base64.b64encode(b"0" * 16).decode()}, "BadDigest"),
        ("UNSIGNED-PAYLOAD", {"x-amz-checksum-sha256": base64.b64encode(b"0" * 32).decode()}, "BadDigest"),
    ],
)
def test_a_body_that_is_not_what_was_signed_leaves_nothing(
    lake: Lake, s3: Any, repo: str, size: int, payload: str, headers: dict[str, str], code: str
) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"before")
    stored = _data_objects(lake, repo)
    answer = send(lake, "PUT", f"/{repo}/main/a", body=BIG[:size], payload=payload, headers=headers)
    assert code_of(answer) == code
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"before"
    assert _data_objects(lake, repo) == stored


def test_a_presigned_url_reads_and_writes(lake: Lake, repo: str) -> None:
    s3 = s3_client(lake, signature_version="s3v4")
    where = {"Bucket": repo, "Key": "main/a b"}
    put_url = s3.generate_presigned_url("put_object", Params=where, ExpiresIn=60)
    get_url = s3.generate_presigned_url(
        "get_object", Params={**where, "ResponseContentType": "text/plain"}, ExpiresIn=60
    )
    with urllib3.PoolManager(retries=False) as pool:
        assert pool.request("PUT", put_url, body=b"content").status == 200
        answer = pool.request("GET", get_url)
        assert (answer.data, answer.headers["Content-Type"]) == (b"content", "text/plain")
        assert pool.request("GET", get_url.replace("a%20b", "other")).status == 403
        assert pool.request("PUT", get_url, body=b"other").status == 403


def test_the_old_signature_that_boto3_presigns_with_by_default_is_refused_with_a_hint(
    lake: Lake, s3: Any, repo: str
) -> None:
    url = s3.generate_presigned_url("get_object", Params={"Bucket": repo, "Key": "main/a"})
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request("GET", url)
    assert code_of(answer) == "InvalidRequest"
    assert b"signature_version='s3v4'" in answer.data


def test_a_refused_big_upload_does_not_break_the_connection(lake: Lake, s3: Any, repo: str) -> None:
    other = s3_client(lake, (lake.server.access_key_id, "wrong"))
    for _ in range(3):
        with refused("SignatureDoesNotMatch", 403):
            other.put_object(Bucket=repo, Key="main/a", Body=BIG)
        with refused("NoSuchBucket", 404):
            s3.put_object(Bucket=repo, Key="nobranch/a", Body=BIG)
        s3.put_object(Bucket=repo, Key="main/b", Body=BIG)
    assert s3.get_object(Bucket=repo, Key="main/b")["Body"].read() == BIG


def _data_objects(lake: Lake, repo: str) -> set[str]:
    return {key for batch in lake.writer(repo).list("data/") for key in batch["key"].to_pylist()}
