"""The fixture for other people's tests, used as they would, with the clients that people have."""

from pathlib import Path

import boto3
import lakefs
import lakefs_sdk
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakefs_sdk.client import LakeFSClient
from pyarrow.fs import FileSelector, S3FileSystem

from lakefs_embedded.testing import EmbeddedLakeFS, lakefs_server, run_lakefs

__all__ = ["lakefs_server"]


def test_every_client_sees_what_another_one_wrote(lakefs_server: EmbeddedLakeFS) -> None:
    assert lakefs_server.create_repository("shop") == "local://shop"
    package = lakefs.Client(**lakefs_server.credentials)
    main = lakefs.Repository("shop", package).branch("main")
    main.object("a/package").upload(b"1")

    sdk = LakeFSClient(lakefs_sdk.Configuration(**lakefs_server.credentials))
    copy = lakefs_sdk.ObjectCopyCreation(src_path="a/package")
    sdk.objects_api.copy_object("shop", "main", "a/sdk", copy)

    s3 = boto3.client("s3", **lakefs_server.boto3_arguments)
    s3.put_object(Bucket="shop", Key="main/a/boto3", Body=b"3")

    files = S3FileSystem(
        access_key=lakefs_server.boto3_arguments["aws_access_key_id"],
        secret_key=lakefs_server.boto3_arguments["aws_secret_access_key"],
        endpoint_override=lakefs_server.url,
        region="us-east-1",
        allow_bucket_creation=False,
    )
    pq.write_table(pa.table({"x": [1, 2, 3]}), "shop/main/a/arrow.parquet", filesystem=files)
    assert pq.read_table("shop/main/a/arrow.parquet", filesystem=files)["x"].to_pylist() == [1, 2, 3]

    main.commit("all of them")
    names = ["a/arrow.parquet", "a/boto3", "a/package", "a/sdk"]
    assert [each.path for each in main.objects()] == names
    listed = files.get_file_info(FileSelector("shop/main/a"))
    assert sorted(each.path.removeprefix("shop/main/") for each in listed) == names
    assert s3.get_object(Bucket="shop", Key="main/a/sdk")["Body"].read() == b"1"
    assert list(main.uncommitted()) == []


def test_each_test_has_a_server_of_its_own(lakefs_server: EmbeddedLakeFS, tmp_path: Path) -> None:
    package = lakefs.Client(**lakefs_server.credentials)
    assert list(lakefs.repositories(client=package)) == []
    with run_lakefs(tmp_path / "other", rbac="none") as other:
        other.create_repository()
        assert other.url != lakefs_server.url
        with pytest.raises(lakefs.exceptions.NotAuthorizedException):
            list(lakefs.repositories(client=lakefs.Client(**{**other.credentials, "password": "wrong"})))
    assert list(lakefs.repositories(client=package)) == []


def test_the_environment_is_what_lakectl_reads(
    lakefs_server: EmbeddedLakeFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakefs_server.create_repository("shop")
    for name, value in lakefs_server.environment.items():
        monkeypatch.setenv(name, value)
    assert [each.id for each in lakefs.repositories(client=lakefs.Client())] == ["shop"]
