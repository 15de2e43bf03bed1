"""Every operation checks its permission: a viewer changes nothing, a user without policies sees nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakefs_embedded.auth import Statement
from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import refused, s3_client

VIEWER = ("AKIAIOSFODNN7VIEWERS", "viewer-secret-viewer-secret-viewer-secre")
NOBODY = ("AKIAIOSFODNN7NOBODY0", "nobody-secret-nobody-secret-nobody-secre")
FOLDER = ("AKIAIOSFODNN7FOLDER0", "folder-secret-folder-secret-folder-secre")

READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda s3: s3.get_object(Bucket="shop", Key="main/a/b"),
    "head": lambda s3: s3.head_object(Bucket="shop", Key="main/a/b"),
    "list 1": lambda s3: s3.list_objects(Bucket="shop", Prefix="main/"),
    "list 2": lambda s3: s3.list_objects_v2(Bucket="shop", Prefix="main/"),
    "list branches": lambda s3: s3.list_objects_v2(Bucket="shop", Delimiter="/"),
    "head bucket": lambda s3: s3.head_bucket(Bucket="shop"),
    "location": lambda s3: s3.get_bucket_location(Bucket="shop"),
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    "put": lambda s3: s3.put_object(Bucket="shop", Key="main/new", Body=b"y"),
    "overwrite": lambda s3: s3.put_object(Bucket="shop", Key="main/a/b", Body=b"y"),
    "delete": lambda s3: s3.delete_object(Bucket="shop", Key="main/a/b"),
    "copy": lambda s3: s3.copy_object(Bucket="shop", Key="main/new", CopySource="shop/main/a/b"),
    "begin": lambda s3: s3.create_multipart_upload(Bucket="shop", Key="main/new"),
    "part": lambda s3: s3.upload_part(Bucket="shop", Key="main/n", UploadId="x", PartNumber=1, Body=b"y"),
    "complete": lambda s3: s3.complete_multipart_upload(
        Bucket="shop",
        Key="main/n",
        UploadId="x",
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]},
    ),
    "abort": lambda s3: s3.abort_multipart_upload(Bucket="shop", Key="main/n", UploadId="x"),
    "create bucket": lambda s3: s3.create_bucket(Bucket="shop"),
}


@pytest.fixture(scope="module")
def shop(lake: Lake) -> Lake:
    """A repository with an object, a viewer, a user without rights, and one with rights on a folder."""
    lake.server.catalog.repositories.create_repository("shop", lake.namespace("shop"))
    lake.server.catalog.objects.upload_object("shop", "main", "a/b", b"x")
    directory = lake.server.accounts.directory
    for user, pair in (("viewer", VIEWER), ("nobody", NOBODY), ("folder", FOLDER)):
        directory.users.create(user)
        directory.credentials.add(user, *pair)
    directory.groups.add_member("Viewers", "viewer")
    resource = "arn:lakefs:fs:::repository/shop/object/mine/*"
    actions = ("fs:ReadObject", "fs:WriteObject", "fs:DeleteObject")
    directory.policies.create("folder", (Statement("allow", actions, resource),))
    directory.policies.attach_to_user("folder", "folder")
    return lake


@pytest.mark.parametrize("name", [*READS, *CHANGES])
def test_who_has_no_rights_does_nothing(shop: Lake, name: str) -> None:
    with refused("403" if name.startswith("head") else "AccessDenied", 403):
        (READS | CHANGES)[name](s3_client(shop, NOBODY))
    assert s3_client(shop, NOBODY).list_buckets()["Buckets"] == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_viewer_changes_nothing(shop: Lake, name: str) -> None:
    with refused("AccessDenied", 403):
        CHANGES[name](s3_client(shop, VIEWER))
    page = shop.server.catalog.reading.list_entries("shop", "main")
    assert [(each.path, each.size_bytes) for each in page.results] == [("a/b", 1)]


def test_many_are_deleted_where_the_right_is_and_nowhere_else(shop: Lake) -> None:
    s3 = s3_client(shop, FOLDER)
    s3.put_object(Bucket="shop", Key="main/mine/1", Body=b"x")
    with refused("AccessDenied", 403):
        s3.copy_object(Bucket="shop", Key="main/mine/2", CopySource="shop/main/a/b")
    objects = [{"Key": key} for key in ("main/mine/1", "main/a/b", "main/mine/../a/b")]
    done = s3.delete_objects(Bucket="shop", Delete={"Objects": objects})
    assert [each["Key"] for each in done["Deleted"]] == ["main/mine/1", "main/mine/../a/b"]
    assert [(each["Key"], each["Code"]) for each in done["Errors"]] == [("main/a/b", "AccessDenied")]
    assert shop.server.catalog.reading.stat("shop", "main", "a/b").size_bytes == 1
