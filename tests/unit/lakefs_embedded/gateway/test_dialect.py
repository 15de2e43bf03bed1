"""Profile `lakefs`: the gateway errs as lakeFS's does, where that is not S3's way."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.s3_gateway import refused, s3_client


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
        (lambda s3: s3.copy_object(Bucket="shop", Key="main/b", CopySource="shop/main/no"), "NoSuchKey", 404),
        (lambda s3: s3.copy_object(Bucket="shop", Key="main/b", CopySource="no/main/a"), "NoSuchKey", 404),
        (lambda s3: s3.copy_object(Bucket="shop", Key="no/b", CopySource="shop/main/a"), "NoSuchBucket", 404),
        (lambda s3: s3.create_bucket(Bucket="not-there"), "NotImplemented", 501),
    ],
)
def test_an_error_is_lakefss(s3: Any, call: Callable[[Any], Any], code: str, status: int) -> None:
    with refused(code, status):
        call(s3)


def test_a_delete_through_a_tag_is_ignored(lake: Lake, s3: Any) -> None:
    lake.server.catalog.commits.commit("shop", "main", committer="t", message="m", allow_empty=True)
    lake.server.catalog.tags.create_tag("shop", "v1", "main")
    s3.delete_object(Bucket="shop", Key="v1/a")
    assert s3.get_object(Bucket="shop", Key="v1/a")["Body"].read() == b"x"
