"""The gateway with its objects in a bucket: the same calls, and parts that are the store's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.objectstore import TestBucket, moto_s3
from tests.support.s3_gateway import s3_client

LARGE = b"x" * (5 << 20)


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as made:
        yield made


@pytest.fixture(scope="module")
def lake_on_s3(tmp_path_factory: pytest.TempPathFactory, bucket: TestBucket) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake"), bucket=bucket) as running:
        running.server.catalog.repositories.create_repository("shop", running.namespace("shop"))
        yield running


def test_put_get_copy_delete(lake_on_s3: Lake) -> None:
    s3: Any = s3_client(lake_on_s3)
    for key, content in (("main/small", b"content"), ("main/large", LARGE)):
        s3.put_object(Bucket="shop", Key=key, Body=content)
        s3.copy_object(Bucket="shop", Key="main/copy", CopySource=f"shop/{key}")
        assert s3.get_object(Bucket="shop", Key="main/copy")["Body"].read() == content
        ranged = s3.get_object(Bucket="shop", Key=key, Range="bytes=2-4")
        assert ranged["Body"].read() == content[2:5]
    keys = [{"Key": key} for key in ("main/small", "main/large", "main/copy")]
    assert "Errors" not in s3.delete_objects(Bucket="shop", Delete={"Objects": keys})


def test_parts_are_the_stores_own(lake_on_s3: Lake, bucket: TestBucket) -> None:
    s3: Any = s3_client(lake_on_s3)
    where = {"Bucket": "shop", "Key": "main/big"}
    upload_id = s3.create_multipart_upload(**where, ContentType="text/x")["UploadId"]
    before = bucket.keys("shop/data/")
    parts = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(**where, UploadId=upload_id, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in enumerate((LARGE, b"end"), 1)
    ]
    (theirs,) = bucket.client.list_multipart_uploads(Bucket=bucket.bucket)["Uploads"]
    assert theirs["Key"].startswith("shop/data/")
    assert theirs["UploadId"] == upload_id
    assert bucket.keys("shop/data/") == before
    s3.complete_multipart_upload(**where, UploadId=upload_id, MultipartUpload={"Parts": parts})
    found = s3.get_object(**where)
    assert found["Body"].read() == LARGE + b"end"
    assert found["ContentType"] == "text/x"
    assert set(bucket.keys("shop/data/")) == {*before, theirs["Key"]}
    assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.bucket)
