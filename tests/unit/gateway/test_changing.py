"""Copy and delete; who may do what; what is refused, and with which code."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import code_of, refused, s3_client, send

WITH_DTD = '<!DOCTYPE d [<!ENTITY e "main/a">]><Delete><Object><Key>&e;</Key></Object></Delete>'


def put(s3: Any, repo: str, key: str, body: bytes = b"x", **more: Any) -> None:
    s3.put_object(Bucket=repo, Key=key, Body=body, **more)


def get(s3: Any, repo: str, key: str) -> Any:
    return s3.get_object(Bucket=repo, Key=key)


# --- copy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["main/to", "dev/to"])
def test_a_copy_is_another_object_with_the_same_content(lake: Lake, s3: Any, repo: str, target: str) -> None:
    lake.server.catalog.branches.create_branch(repo, "dev", "main")
    put(s3, repo, "main/from ü+%", b"content", ContentType="text/x", Metadata={"a": "b"})
    made = s3.copy_object(Bucket=repo, Key=target, CopySource={"Bucket": repo, "Key": "main/from ü+%"})
    found = get(s3, repo, target)
    assert made["CopyObjectResult"]["ETag"] == found["ETag"]
    assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (
        b"content",
        "text/x",
        {"a": "b"},
    )
    s3.delete_object(Bucket=repo, Key="main/from ü+%")
    assert get(s3, repo, target)["Body"].read() == b"content"


def test_copying_with_other_metadata(lake: Lake, s3: Any, repo: str) -> None:
    put(s3, repo, "main/a", b"content", ContentType="text/x", Metadata={"a": "b"})
    for key in ("main/b", "main/a"):
        s3.copy_object(
            Bucket=repo,
            Key=key,
            CopySource=f"{repo}/main/a",
            MetadataDirective="REPLACE",
            ContentType="text/y",
            Metadata={"c": "d"},
        )
        found = get(s3, repo, key)
        assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (
            b"content",
            "text/y",
            {"c": "d"},
        )


def test_copying_from_another_repository_and_from_a_commit(lake: Lake, s3: Any, repo: str) -> None:
    other = f"{repo}-2"
    lake.server.catalog.repositories.create_repository(other, lake.namespace(other))
    put(s3, repo, "main/a", b"old", Metadata={"a": "b"})
    commit = lake.server.catalog.commits.commit(repo, "main", message="m", committer="c")
    put(s3, repo, "main/a", b"new")
    s3.copy_object(Bucket=other, Key="main/a", CopySource=f"{repo}/{commit.id}/a")
    found = get(s3, other, "main/a")
    assert (found["Body"].read(), found["Metadata"]) == (b"old", {"a": "b"})
    address = lake.server.catalog.reading.stat(other, "main", "a").physical_address
    assert address.startswith(lake.namespace(other) + "/data/")


def test_a_copy_goes_on_conditions_of_its_source(s3: Any, repo: str) -> None:
    put(s3, repo, "main/a")
    etag = get(s3, repo, "main/a")["ETag"]
    source = {"Bucket": repo, "Key": "main/b", "CopySource": f"{repo}/main/a"}
    s3.copy_object(**source, CopySourceIfMatch=etag)
    with refused("PreconditionFailed", 412):
        s3.copy_object(**source, CopySourceIfMatch='"other"')
    with refused("PreconditionFailed", 412):
        s3.copy_object(**source, CopySourceIfNoneMatch=etag)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("{repo}/main/nothing", "NoSuchKey"),
        ("{repo}/nobranch/a", "NoSuchBucket"),
        ("no-such-repo/main/a", "NoSuchBucket"),
        ("{repo}", "InvalidArgument"),
        ("{repo}/main", "InvalidArgument"),
        ("{repo}/main/", "InvalidArgument"),
        ("{repo}/main/a?versionId=3", "NotImplemented"),
    ],
)
def test_a_source_that_is_none(lake: Lake, s3: Any, repo: str, source: str, code: str) -> None:
    put(s3, repo, "main/a")
    headers = {"x-amz-copy-source": source.format(repo=repo)}
    assert code_of(send(lake, "PUT", f"/{repo}/main/b", headers=headers)) == code
    with refused("NoSuchKey"):
        get(s3, repo, "main/b")


# --- delete ------------------------------------------------------------------------------------------------


def test_deleting_what_is_not_there_succeeds(s3: Any, repo: str) -> None:
    s3.delete_object(Bucket=repo, Key="main/nothing")
    s3.delete_object(Bucket=repo, Key="nobranch/nothing")


def test_deleting_never_reaches_a_commit_or_a_tag(lake: Lake, s3: Any, repo: str) -> None:
    put(s3, repo, "main/a")
    commit = lake.server.catalog.commits.commit(repo, "main", message="m", committer="c")
    lake.server.catalog.tags.create_tag(repo, "v1", "main")
    for ref in ("v1", commit.id):
        with refused("MethodNotAllowed", 405):
            s3.delete_object(Bucket=repo, Key=f"{ref}/a")
        failed = s3.delete_objects(Bucket=repo, Delete={"Objects": [{"Key": f"{ref}/a"}]})["Errors"]
        assert [each["Code"] for each in failed] == ["MethodNotAllowed"]
    s3.delete_object(Bucket=repo, Key="main/a")
    for ref in ("v1", commit.id):
        assert get(s3, repo, f"{ref}/a")["Body"].read() == b"x"


def test_many_are_deleted_at_once_each_with_its_outcome(lake: Lake, s3: Any, repo: str) -> None:
    lake.server.catalog.branches.create_branch(repo, "dev", "main")
    keys = ["main/a", "main/b b", "main/<&>\"'", "main/ü", "main/a//b", "dev/a", "main/ x "]
    for key in [*keys, "main/keep"]:
        put(s3, repo, key)
    asked = [*keys, "main/nothing", "main/"]
    done = s3.delete_objects(Bucket=repo, Delete={"Objects": [{"Key": key} for key in asked]})
    assert [each["Key"] for each in done["Deleted"]] == asked
    assert "Errors" not in done
    listed = s3.list_objects_v2(Bucket=repo, Prefix="main/")["Contents"]
    assert [each["Key"] for each in listed] == ["main/keep"]
    assert "Contents" not in s3.list_objects_v2(Bucket=repo, Prefix="dev/")


def test_a_thousand_are_deleted_and_no_more(lake: Lake, s3: Any, repo: str) -> None:
    keys = [{"Key": f"main/{number}"} for number in range(1001)]
    quiet = s3.delete_objects(Bucket=repo, Delete={"Objects": keys[:1000], "Quiet": True})
    assert "Deleted" not in quiet
    assert "Errors" not in quiet
    with refused("MalformedXML", 400):
        s3.delete_objects(Bucket=repo, Delete={"Objects": keys})


def test_one_key_that_fails_does_not_stop_the_others(lake: Lake, s3: Any, repo: str) -> None:
    for key in ("main/a", "main/b"):
        put(s3, repo, key)
    objects = [{"Key": "main/a"}, {"Key": "main/" + "x" * 1025}, {"Key": "main/b", "VersionId": "7"}]
    done = s3.delete_objects(Bucket=repo, Delete={"Objects": objects})
    assert [each["Key"] for each in done["Deleted"]] == ["main/a"]
    assert [each["Code"] for each in done["Errors"]] == ["KeyTooLongError", "NotImplemented"]
    assert get(s3, repo, "main/b")["Body"].read() == b"x"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete/>",
        b"<Other><Object><Key>main/a</Key></Object></Other>",
        b"<Delete><Object></Object></Delete>",
        b"<Delete><Object><Key>main/a</Key></Object>",
        WITH_DTD.encode(),
        WITH_DTD.encode("utf-16"),
        WITH_DTD.encode("utf-16-le"),
        WITH_DTD.encode("utf-16-be"),
    ],
)
def test_a_document_that_is_no_delete_deletes_nothing(lake: Lake, s3: Any, repo: str, body: bytes) -> None:
    put(s3, repo, "main/a")
    answer = send(lake, "POST", f"/{repo}", query={"delete": ""}, body=body)
    assert code_of(answer) == "MalformedXML"
    assert get(s3, repo, "main/a")["Body"].read() == b"x"


# --- refusals ----------------------------------------------------------------------------------------------


def test_protected_branches_and_read_only_repositories_are_not_written(
    lake: Lake, s3: Any, repo: str
) -> None:
    put(s3, repo, "main/a")
    lake.server.catalog.repositories.set_branch_protection(repo, ["main"])
    name = f"ro-{uuid.uuid4().hex[:8]}"
    lake.server.catalog.repositories.create_repository(name, lake.namespace(name), read_only=True)
    for bucket, code in ((repo, "ErrWriteToProtectedBranch"), (name, "ErrReadOnlyRepository")):
        with refused(code, 403):
            put(s3, bucket, "main/a")
        with refused(code, 403):
            s3.delete_object(Bucket=bucket, Key="main/a")
        with refused(code, 403):
            s3.create_multipart_upload(Bucket=bucket, Key="main/a")
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "main/a"}]})
        assert [each["Code"] for each in done["Errors"]] == [code]
    assert get(s3, repo, "main/a")["Body"].read() == b"x"


def test_a_key_without_a_path_is_no_object(s3: Any, repo: str) -> None:
    for key in ("main", "main/"):
        with refused("NoSuchKey", 404):
            get(s3, repo, key)
        with refused("InvalidURI", 400):
            put(s3, repo, key)


def test_a_key_may_have_1024_bytes_and_no_more(s3: Any, repo: str) -> None:
    put(s3, repo, "main/" + "ü" * 512)
    with refused("KeyTooLongError", 400):
        put(s3, repo, "main/" + "ü" * 512 + "x")


@pytest.mark.parametrize("parameter", ["acl", "tagging", "retention", "legal-hold", "torrent"])
def test_parts_of_s3_that_are_not_here_never_touch_the_object(
    lake: Lake, s3: Any, repo: str, parameter: str
) -> None:
    put(s3, repo, "main/a", b"content")
    for method in ("PUT", "DELETE"):
        answer = send(lake, method, f"/{repo}/main/a", query={parameter: ""}, body=b"<x/>")
        assert (answer.status, code_of(answer)) == (405, "ERRLakeFSNotSupported")
    answer = send(lake, "POST", f"/{repo}/main/a", query={"select": "", "select-type": "2"})
    assert code_of(answer) == "ERRLakeFSNotSupported"
    assert get(s3, repo, "main/a")["Body"].read() == b"content"


def test_unknown_keys_and_wrong_secrets(lake: Lake, repo: str) -> None:
    with refused("InvalidAccessKeyId", 403):
        s3_client(lake, ("AKIAIOSFODNN7NOTHERE", "x")).list_buckets()
    with refused("SignatureDoesNotMatch", 403):
        s3_client(lake, (lake.server.access_key_id, "x")).list_buckets()
    answer = send(lake, "GET", "/", unsigned={"x-amz-extra": "1"})
    assert (answer.status, code_of(answer)) == (403, "AccessDenied")


def test_the_clock_that_counts_is_the_servers(lake: Lake, s3: Any) -> None:
    lake.clock.advance(minutes=20)
    try:
        with refused("RequestTimeTooSkewed", 403):
            s3.list_buckets()
    finally:
        lake.clock.advance(minutes=-20)
    s3.list_buckets()


def test_requests_without_a_signature_are_the_apis(lake: Lake, repo: str) -> None:
    assert lake.http("GET", "/repositories").status == 200
    assert lake.http("GET", f"/../../{repo}/main/a").status in (401, 404)


def test_errors_have_s3s_shape(lake: Lake, repo: str) -> None:
    answer = send(lake, "GET", f"/{repo}/main/<nothing>")
    assert answer.headers["Content-Type"] == "application/xml"
    request_id = answer.headers["x-amz-request-id"]
    assert answer.data == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
        b"<Message>The specified key does not exist.</Message>"
        + f"<Resource>/{repo}/main/%3Cnothing%3E</Resource><RequestId>{request_id}</RequestId>".encode()
        + b"</Error>"
    )
    assert send(lake, "HEAD", f"/{repo}/main/nothing").data == b""


def test_bytes_that_are_gone_are_told_from_a_missing_key(lake: Lake, s3: Any, repo: str) -> None:
    lake.stage(repo, "main", "a", "data/never-written", size_bytes=3)
    with refused("NoSuchVersion", 404):
        get(s3, repo, "main/a")


def test_a_path_that_is_no_utf8_is_refused(lake: Lake, repo: str) -> None:
    import urllib3

    from dredge.gateway.sigv4 import RawRequest, read_claim, string_to_sign
    from dredge.gateway.sigv4 import sign as hmac_of

    # No client of ours sends such a path, so it is signed by hand.
    moment = f"{lake.clock():%Y%m%dT%H%M%SZ}"
    host = lake.server.url.removeprefix("http://")
    scope = f"{moment[:8]}/us-east-1/s3/aws4_request"
    start = f"AWS4-HMAC-SHA256 Credential={lake.server.access_key_id}/{scope}"
    names = "host;x-amz-content-sha256;x-amz-date"
    headers = {"host": host, "x-amz-date": moment, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}

    def authorization(signature: str) -> str:
        return f"{start},SignedHeaders={names},Signature={signature}"

    pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
    raw = RawRequest(
        "GET",
        f"/{repo}/main/%ff".encode(),
        b"",
        [*pairs, (b"authorization", authorization("0" * 64).encode())],
    )
    claim = read_claim(raw)
    signature = hmac_of(claim.signing_key(lake.server.secret_access_key), string_to_sign(raw, claim)).hex()
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request(
            "GET",
            f"{lake.server.url}/{repo}/main/%FF",
            headers={**headers, "authorization": authorization(signature)},
        )
    assert code_of(answer) == "InvalidURI"
