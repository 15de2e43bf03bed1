"""Profile `lakefs`: the gateway errs as lakeFS's does, where that is not S3's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.s3_gateway import code_of, refused, s3_client, send


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake")) as running:
        running.repository("shop")
        running.server.catalog.objects.upload_object("shop", "main", "a", b"x")
        running.server.catalog.repositories.create_repository(
            "frozen", running.namespace("frozen"), read_only=True
        )
        yield running


@pytest.fixture(scope="module")
def s3(lake: Lake) -> Any:
    return s3_client(lake)


UPLOAD = {"Bucket": "shop", "Key": "main/a", "UploadId": "nothing"}
PARTS = {"Parts": [{"PartNumber": 1, "ETag": "x"}]}


@pytest.mark.parametrize(
    ("call", "code", "status"),
    [
        (lambda s3: s3.upload_part(**UPLOAD, PartNumber=1, Body=b""), "InternalError", 500),
        (lambda s3: s3.list_parts(**UPLOAD), "InternalError", 500),
        (lambda s3: s3.complete_multipart_upload(**UPLOAD, MultipartUpload=PARTS), "InternalError", 500),
        (lambda s3: s3.abort_multipart_upload(**UPLOAD), "NoSuchKey", 404),
        (lambda s3: s3.list_multipart_uploads(Bucket="shop", Prefix="main"), "NotImplemented", 501),
        (lambda s3: s3.copy_object(Bucket="shop", Key="main/b", CopySource="shop/main/no"), "NoSuchKey", 404),
        (lambda s3: s3.copy_object(Bucket="shop", Key="main/b", CopySource="no/main/a"), "NoSuchKey", 404),
        (lambda s3: s3.copy_object(Bucket="shop", Key="no/b", CopySource="shop/main/a"), "NoSuchBucket", 404),
        (lambda s3: s3.create_bucket(Bucket="not-there"), "NotImplemented", 501),
    ],
)
def test_an_error_is_lakefss(s3: Any, call: Callable[[Any], Any], code: str, status: int) -> None:
    with refused(code, status):
        call(s3)


def test_a_part_copied_from_nowhere_is_a_wrong_argument(s3: Any) -> None:
    where = {"Bucket": "shop", "Key": "main/big"}
    upload = s3.create_multipart_upload(**where)["UploadId"]
    for source in ("shop/main/no", "shop/no/a", "no/main/a"):
        with refused("InvalidArgument", 400):
            s3.upload_part_copy(**where, UploadId=upload, PartNumber=1, CopySource=source)
    s3.upload_part_copy(**where, UploadId=upload, PartNumber=1, CopySource="shop/main/a")


def test_open_uploads_are_listed_without_their_branch(lake: Lake, s3: Any) -> None:
    lake.repository("uploads")
    for name in ("one", "two"):
        s3.create_multipart_upload(Bucket="uploads", Key=f"main/{name}")
    first = s3.list_multipart_uploads(Bucket="uploads", MaxUploads=1)
    rest = s3.list_multipart_uploads(
        Bucket="uploads", KeyMarker=first["NextKeyMarker"], UploadIdMarker=first["NextUploadIdMarker"]
    )
    assert [[each["Key"] for each in page["Uploads"]] for page in (first, rest)] == [["one"], ["two"]]


def test_a_copy_of_bytes_that_are_gone_is_an_illegal_request(lake: Lake, s3: Any) -> None:
    lake.stage("shop", "main", "gone", "data/never-written", size_bytes=1)
    with refused("InvalidRequest", 400):
        s3.copy_object(Bucket="shop", Key="main/b", CopySource="shop/main/gone")


def test_a_client_with_the_apis_address_is_told_so(lake: Lake) -> None:
    for path in ("/api/v1/shop/main/a", "/api/v1"):
        answer = send(lake, "GET", path)
        assert (answer.status, code_of(answer)) == (404, "ErrNoSuchBucketPossibleAPIEndpoint")
        assert b"mistakenly ends in" in answer.data


def test_a_key_without_a_path_is_404_without_a_body(lake: Lake) -> None:
    answer = send(lake, "GET", "/shop/main")
    assert (answer.status, answer.data) == (404, b"")


def test_a_delete_through_a_tag_is_ignored(lake: Lake, s3: Any) -> None:
    lake.server.catalog.commits.commit("shop", "main", committer="t", message="m", allow_empty=True)
    lake.server.catalog.tags.create_tag("shop", "v1", "main")
    s3.delete_object(Bucket="shop", Key="v1/a")
    assert s3.get_object(Bucket="shop", Key="v1/a")["Body"].read() == b"x"


def test_metadata_beyond_ascii_comes_back_as_go_encodes_it(lake: Lake) -> None:
    headers = {
        "x-amz-meta-colour": "=?utf-8?b?YmxhdcO8?=",
        "x-amz-meta-long": "=?utf-8?q?" + "=C3=BC_" * 10 + "?=",
    }
    assert send(lake, "PUT", "/shop/main/m", headers=headers).status == 200
    told = send(lake, "HEAD", "/shop/main/m").headers
    assert told["x-amz-meta-colour"] == "=?utf-8?q?blau=C3=BC?="
    first, second = told["x-amz-meta-long"].split(" ")
    assert len(first) <= 75
    assert (first + second).count("=C3=BC") == 10


def test_a_client_that_follows_redirections_gets_none_where_nothing_is_signed(lake: Lake) -> None:
    answer = send(lake, "GET", "/shop/main/a", headers={"User-Agent": "x s3RedirectionSupport"})
    assert (answer.status, code_of(answer)) == (500, "InternalError")
