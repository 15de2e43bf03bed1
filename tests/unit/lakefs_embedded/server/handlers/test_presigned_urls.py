"""Pre-signed URLs: clients read and write objects in the store itself."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import lakefs
import lakefs_sdk
import pytest
import urllib3

from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.objectstore import TestBucket, moto_s3


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as made:
        yield made


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory, bucket: TestBucket) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake"), bucket=bucket, presign=True) as lake:
        lake.repository("shop")
        yield lake


def fetch(method: str, url: str, body: bytes = b"", **headers: str) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False) as pool:
        return pool.request(method, url, body=body, headers=headers)


def test_the_high_level_client_writes_and_reads_through_the_store(signing: Lake) -> None:
    written = lakefs.Repository("shop", signing.client).branch("main").object("dir/a b")
    written.upload(b"bytes", content_type="text/x", metadata={"k": "v"}, pre_sign=True)
    with written.reader(mode="rb", pre_sign=True) as reader:
        assert reader.read() == b"bytes"
    stats = written.stat(pre_sign=False)
    assert (stats.size_bytes, stats.content_type, stats.metadata) == (5, "text/x", {"k": "v"})
    assert stats.physical_address.startswith(signing.namespace("shop") + "/data/")
    assert signing.client.storage_config.pre_sign_support


def test_every_signed_url_leads_to_the_bytes_and_says_when_it_expires(signing: Lake) -> None:
    lakefs.Repository("shop", signing.client).branch("main").object("x/y").upload(b"12345", pre_sign=False)
    objects = signing.sdk.objects_api
    stats = objects.stat_object("shop", "main", "x/y", presign=True)
    [listed] = objects.list_objects("shop", "main", prefix="x/", presign=True).results
    where = {"path": "x/y", "presign": "true"}
    redirected = signing.http("GET", "/repositories/shop/refs/main/objects", query=where)
    assert (redirected.status, redirected.data) == (302, b"")
    in_15_minutes = datetime.now(UTC) + timedelta(minutes=15)
    for url in (stats.physical_address, listed.physical_address, redirected.headers["Location"]):
        assert "X-Amz-Signature=" in url  # version 4
        assert fetch("GET", url).data == b"12345"
    for each in (stats, listed):
        assert abs((each.physical_address_expiry or 0) - in_15_minutes.timestamp()) < 60
    assert "filename%3Dy" in stats.physical_address  # browsers save it under its name


def test_the_csv_of_active_commits_comes_with_a_url(signing: Lake) -> None:
    rules = lakefs_sdk.GarbageCollectionRules(default_retention_days=1, branches=[])
    signing.sdk.repositories_api.set_gc_rules("shop", rules)
    internal = signing.sdk.internal_api
    made = internal.prepare_garbage_collection_commits("shop")
    task = internal.prepare_garbage_collection_commits_async("shop").id
    for _ in range(500):
        status = internal.prepare_garbage_collection_commits_status("shop", task)
        if status.completed:
            break
        time.sleep(0.01)
    for result in (made, status.result):
        assert result is not None
        assert result.gc_commits_presigned_url is not None
        assert fetch("GET", result.gc_commits_presigned_url).data.startswith(
            b"commit_id,expired,metarange_id"
        )
