"""Uploads in parts by pre-signed URLs, through the generated SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakefs_sdk as sdk
import pytest
import urllib3
from lakefs_sdk.exceptions import ApiException

from dredge.graveler.catalog import Settings
from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.objectstore import TestBucket, moto_s3

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as made:
        yield made


@pytest.fixture(params=["lakefs", "design"])
def signing(tmp_path: Path, bucket: TestBucket, request: pytest.FixtureRequest) -> Iterator[Lake]:
    settings = Settings(presign_multipart=True, profile=request.param)
    with lakefs_server(tmp_path, bucket=bucket, catalog=settings, presign=True) as lake:
        lake.server.catalog.repositories.create_repository(
            request.param, f"{bucket.uri}/{request.node.originalname}-{request.param}"
        )
        yield lake


def repo(lake: Lake) -> str:
    return lake.sdk.repositories_api.list_repositories().results[0].id


def put(url: str, data: bytes) -> str:
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request("PUT", url, body=data)
    assert answer.status == 200, answer.data
    return str(answer.headers["ETag"])


def part(number: int, etag: str) -> sdk.UploadPart:
    return sdk.UploadPart(part_number=number, etag=etag)


def completion(upload: sdk.PresignMultipartUpload, *parts: sdk.UploadPart, **more: Any) -> Any:
    return sdk.CompletePresignMultipartUpload(
        physical_address=upload.physical_address, parts=list(parts), **more
    )


def complete(lake: Lake, upload: sdk.PresignMultipartUpload, body: Any, path: str = "big") -> sdk.ObjectStats:
    api = lake.sdk.experimental_api
    return api.complete_presign_multipart_upload(
        repo(lake), "main", upload.upload_id, path, complete_presign_multipart_upload=body
    )


def status_of(call: Any, *args: Any, **kwargs: Any) -> int:
    with pytest.raises(ApiException) as refused:
        call(*args, **kwargs)
    return int(refused.value.status)


def test_parts_go_past_the_server_and_become_an_object(signing: Lake) -> None:
    api, name = signing.sdk.experimental_api, repo(signing)
    assert signing.sdk.config_api.get_config().storage_config.pre_sign_multipart_upload is True
    upload = api.create_presign_multipart_upload(name, "main", "big", parts=1)
    first = put(upload.presigned_urls[0], b"a" * 5 * MEGABYTE)
    more = api.upload_part(
        name, "main", upload.upload_id, "big", 2, sdk.UploadPartFrom(physical_address=upload.physical_address)
    )
    second = put(more.presigned_url, b"b")
    body = completion(
        upload, part(1, first), part(2, second), user_metadata={"k": "v"}, content_type="text/plain"
    )
    made = complete(signing, upload, body)
    assert (made.size_bytes, made.content_type) == (5 * MEGABYTE + 1, "text/plain")
    assert (made.metadata, made.physical_address) == ({"k": "v"}, upload.physical_address)
    answer = signing.http("GET", f"/repositories/{name}/refs/main/objects", query={"path": "big"})
    assert answer.data == b"a" * 5 * MEGABYTE + b"b"
    assert status_of(complete, signing, upload, body) == 404


def copied(
    lake: Lake, upload: sdk.PresignMultipartUpload, number: int, path: str = "source", span: str | None = None
) -> str:
    """Copy an object, or a range of it, into a part; gives the part's ETag."""
    body = sdk.UploadPartCopyFrom(
        physical_address=upload.physical_address,
        copy_source=sdk.CopyPartSource(repository=repo(lake), ref="main", path=path, range=span),
    )
    made = lake.sdk.experimental_api.upload_part_copy_with_http_info(
        repo(lake), "main", upload.upload_id, "big", number, body
    )
    assert made.status_code == 204
    return str(made.headers["ETag"])


def test_parts_are_copied_from_objects(signing: Lake) -> None:
    content = bytes(range(256)) * 4096 * 5
    signing.server.catalog.objects.upload_object(repo(signing), "main", "source", content)
    upload = signing.sdk.experimental_api.create_presign_multipart_upload(repo(signing), "main", "big")
    first = copied(signing, upload, 1)
    second = copied(signing, upload, 2, span="bytes=10-19")
    complete(signing, upload, completion(upload, part(1, first), part(2, second)))
    with signing.server.catalog.reading.get_object(repo(signing), "main", "big").stream(0, None) as stream:
        assert b"".join(stream) == content + content[10:20]
    upload = signing.sdk.experimental_api.create_presign_multipart_upload(repo(signing), "main", "big")
    for path, span, status in (
        ("nothing", None, 404),
        ("source", f"bytes=0-{len(content)}", 400),
        ("source", "bytes=5-4", 400),
        ("source", "bytes=-5", 400),
    ):
        assert status_of(copied, signing, upload, 1, path, span) == status


def test_an_upload_given_up_is_gone(signing: Lake) -> None:
    api, name = signing.sdk.experimental_api, repo(signing)
    upload = api.create_presign_multipart_upload(name, "main", "big", parts=1)
    etag = put(upload.presigned_urls[0], b"x")
    giving_up = sdk.AbortPresignMultipartUpload(physical_address=upload.physical_address)
    abort = {"abort_presign_multipart_upload": giving_up}
    api.abort_presign_multipart_upload(name, "main", upload.upload_id, "big", **abort)
    target = (name, "main", upload.upload_id, "big")
    assert status_of(api.abort_presign_multipart_upload, *target, **abort) == 404
    assert status_of(complete, signing, upload, completion(upload, part(1, etag))) == 404
    assert signing.sdk.objects_api.list_objects(name, "main").results == []


def test_codes_of_refusals(signing: Lake) -> None:
    api, name = signing.sdk.experimental_api, repo(signing)
    upload = api.create_presign_multipart_upload(name, "main", "big", parts=1)
    assert status_of(api.create_presign_multipart_upload, name, "nowhere", "big") == 404
    assert status_of(api.create_presign_multipart_upload, name, "main", "big", parts=10_001) == 400
    etag = put(upload.presigned_urls[0], b"x")
    wrong = completion(upload, part(1, "0" * 32))
    assert status_of(complete, signing, upload, wrong) == 400
    assert status_of(complete, signing, upload, completion(upload, part(1, etag)), path="other") == 400
    unsigned = completion(upload, part(1, etag)).copy(update={"physical_address": "s3://elsewhere/x"})
    assert status_of(complete, signing, upload, unsigned) == 400
    signing.clock.advance(hours=25)
    assert status_of(complete, signing, upload, completion(upload, part(1, etag))) == 400
    signing.clock.advance(hours=-25)
    assert complete(signing, upload, completion(upload, part(1, etag))).size_bytes == 1


@pytest.mark.parametrize("settings", [Settings(), Settings(presign_multipart=True)])
def test_where_nothing_is_signed_all_of_it_is_501(tmp_path: Path, settings: Settings) -> None:
    with lakefs_server(tmp_path, catalog=settings) as lake:
        lake.repository("lake")
        api = lake.sdk.experimental_api
        assert lake.sdk.config_api.get_config().storage_config.pre_sign_multipart_upload is False
        assert status_of(api.create_presign_multipart_upload, "lake", "main", "big", parts=1) == 501
        address = sdk.PresignMultipartUpload(upload_id="u", physical_address="s3://b/data/x")
        source = sdk.UploadPartFrom(physical_address="s3://b/data/x")
        assert status_of(api.upload_part, "lake", "main", "u", "big", 1, source) == 501
        completing = {"complete_presign_multipart_upload": completion(address)}
        assert (
            status_of(api.complete_presign_multipart_upload, "lake", "main", "u", "big", **completing) == 501
        )
        giving_up = sdk.AbortPresignMultipartUpload(physical_address="s3://b/data/x")
        aborting = {"abort_presign_multipart_upload": giving_up}
        assert status_of(api.abort_presign_multipart_upload, "lake", "main", "u", "big", **aborting) == 501
        copying = sdk.UploadPartCopyFrom(
            physical_address="s3://b/data/x",
            copy_source=sdk.CopyPartSource(repository="lake", ref="main", path="a"),
        )
        assert status_of(api.upload_part_copy, "lake", "main", "u", "big", 1, copying) == 501
        answer = lake.http("POST", "/repositories/lake/branches/main/staging/pmpu", query={"path": "a"})
        assert answer.json() == {"message": "presign multipart upload API is not supported"}
