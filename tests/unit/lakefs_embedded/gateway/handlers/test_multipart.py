"""Multipart uploads: complete, abort, copy, list; no part is an object in data/ before completion."""

import hashlib
from typing import Any

import pytest

from lakefs_embedded.catalog.multiparts import PARTITION
from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import code_of, refused, send

PARTS = [b"a" * (5 << 20), b"b" * (5 << 20), b"c" * 100]
ETAG = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in PARTS)).hexdigest()


def begin(s3: Any, repo: str, key: str = "main/big", **more: Any) -> str:
    return str(s3.create_multipart_upload(Bucket=repo, Key=key, **more)["UploadId"])


def put(
    s3: Any, repo: str, upload_id: str, number: int, body: bytes, key: str = "main/big"
) -> dict[str, Any]:
    made = s3.upload_part(Bucket=repo, Key=key, UploadId=upload_id, PartNumber=number, Body=body)
    return {"PartNumber": number, "ETag": made["ETag"]}


def complete(s3: Any, repo: str, upload_id: str, parts: list[dict[str, Any]], **more: Any) -> Any:
    arguments = {"Bucket": repo, "Key": "main/big", "UploadId": upload_id} | more
    return s3.complete_multipart_upload(**arguments, MultipartUpload={"Parts": parts})


def objects(lake: Lake, repo: str) -> list[str]:
    return [key for batch in lake.writer(repo).list("data/") for key in batch["key"].to_pylist()]


def kept_uploads(lake: Lake) -> list[bytes]:
    return [entry.key for entry in lake.server.kv.scan(PARTITION)]


def test_parts_become_one_object_with_all_that_was_said_at_the_beginning(
    lake: Lake, s3: Any, repo: str
) -> None:
    before = objects(lake, repo)
    upload_id = begin(s3, repo, ContentType="text/x-parts", Metadata={"colour": "blue"})
    parts = [put(s3, repo, upload_id, number, body) for number, body in enumerate(PARTS, 1)]
    assert objects(lake, repo) == before  # no collector can take what is outside data/
    assert upload_id.encode() in kept_uploads(lake)
    done = complete(s3, repo, upload_id, parts)
    assert done["ETag"] == f'"{ETAG}-3"'
    assert done["Key"] == "main/big"
    found = s3.get_object(Bucket=repo, Key="main/big")
    assert found["Body"].read() == b"".join(PARTS)
    assert (found["ETag"], found["ContentType"], found["Metadata"]) == (
        f'"{ETAG}"',
        "text/x-parts",
        {"colour": "blue"},
    )
    assert len(objects(lake, repo)) == len(before) + 1
    assert kept_uploads(lake) == []
    with refused("NoSuchUpload", 404):
        complete(s3, repo, upload_id, parts)


def test_a_wrong_list_of_parts_leaves_the_upload_open(lake: Lake, s3: Any, repo: str) -> None:
    upload_id = begin(s3, repo)
    first, second = put(s3, repo, upload_id, 1, PARTS[0]), put(s3, repo, upload_id, 2, PARTS[1])
    for parts, code in (
        ([second, first], "InvalidPartOrder"),
        ([first, first], "InvalidPartOrder"),
        ([first, {"PartNumber": 9, "ETag": first["ETag"]}], "InvalidPart"),
    ):
        with refused(code, 400):
            complete(s3, repo, upload_id, parts)
    path, query = f"/{repo}/main/big", {"uploadId": upload_id}
    for body in (b"", b"<x/>", b"<CompleteMultipartUpload/>", b"<!DOCTYPE x><CompleteMultipartUpload/>"):
        assert code_of(send(lake, "POST", path, query=query, body=body)) == "MalformedXML"
    complete(s3, repo, upload_id, [first, second])


def test_an_aborted_upload_leaves_nothing(lake: Lake, s3: Any, repo: str) -> None:
    before = objects(lake, repo)
    upload_id = begin(s3, repo)
    first = put(s3, repo, upload_id, 1, PARTS[0])
    s3.abort_multipart_upload(Bucket=repo, Key="main/big", UploadId=upload_id)
    for call in (
        lambda: complete(s3, repo, upload_id, [first]),
        lambda: put(s3, repo, upload_id, 2, b"x"),
        lambda: s3.list_parts(Bucket=repo, Key="main/big", UploadId=upload_id),
        lambda: s3.abort_multipart_upload(Bucket=repo, Key="main/big", UploadId=upload_id),
    ):
        with refused("NoSuchUpload", 404):
            call()
    assert objects(lake, repo) == before
    assert kept_uploads(lake) == []
    with refused("NotImplemented", 501):
        s3.list_multipart_uploads(Bucket=repo)


def test_parts_can_be_copied_from_objects_whole_or_in_part(s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a b+ü", Body=bytes(range(200)))
    source = {"Bucket": repo, "Key": "main/a b+ü"}
    upload_id = begin(s3, repo)
    where = {"Bucket": repo, "Key": "main/big", "UploadId": upload_id}
    whole = s3.upload_part_copy(**where, PartNumber=1, CopySource=source)["CopyPartResult"]
    some = s3.upload_part_copy(**where, PartNumber=2, CopySource=source, CopySourceRange="bytes=10-19")
    for wrong in ("bytes=10-200", "bytes=-5", "bytes=5-", "10-19", "bytes=300-400"):
        with pytest.raises(s3.exceptions.ClientError):
            s3.upload_part_copy(**where, PartNumber=3, CopySource=source, CopySourceRange=wrong)
    parts = [
        {"PartNumber": 1, "ETag": whole["ETag"]},
        {"PartNumber": 2, "ETag": some["CopyPartResult"]["ETag"]},
    ]
    complete(s3, repo, upload_id, parts)
    assert s3.get_object(Bucket=repo, Key="main/big")["Body"].read() == bytes(range(200)) + bytes(
        range(10, 20)
    )


def test_the_transfer_manager_uses_all_of_it(s3: Any, repo: str, tmp_path: Any) -> None:
    from boto3.s3.transfer import TransferConfig

    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(b"".join(PARTS))
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=3)
    s3.upload_file(str(source), repo, "main/file", Config=config)
    s3.copy({"Bucket": repo, "Key": "main/file"}, repo, "main/copy", Config=config)
    s3.download_file(repo, "main/copy", str(back), Config=config)
    assert back.read_bytes() == source.read_bytes()
