"""The design's profile over HTTP and through the S3 gateway."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.exceptions import ApiException

from lakefs_embedded.catalog import Settings
from lakefs_embedded.catalog.copies import Copies
from lakefs_embedded.server.housekeeping import Housekeeping
from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.s3_gateway import s3_client


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakefs_server(tmp_path, catalog=Settings(profile="design")) as running:
        running.repository("lake")
        yield running


def upload(lake: Lake, path: str, data: bytes = b"content") -> str:
    answer = lake.http("POST", "/repositories/lake/branches/main/objects", query={"path": path}, body=data)
    assert answer.status == 201
    return stat(lake, path)


def stat(lake: Lake, path: str) -> str:
    return lake.sdk.objects_api.stat_object("lake", "main", path).physical_address


def tracked(lake: Lake) -> int:
    return len(list(Copies(lake.server.kv).scan(lake.server.catalog.repositories.get_repository("lake"))))


def link(lake: Lake, location: sdk.StagingLocation, path: str = "a") -> sdk.ObjectStats:
    metadata = sdk.StagingMetadata(staging=location, checksum="c", size_bytes=7)
    return lake.sdk.staging_api.link_physical_address("lake", "main", path, metadata)


def test_of_many_links_at_once_one_succeeds(lake: Lake) -> None:
    location = lake.sdk.staging_api.get_physical_address("lake", "main", "a")

    def attempt(_number: int) -> int:
        try:
            link(lake, location)
        except ApiException as refused:
            return int(refused.status)
        return 200

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(attempt, range(8)))
    assert sorted(codes) == [200] + [400] * 7


def test_staging_inside_the_namespace_is_400_in_the_shape_of_errors(lake: Lake) -> None:
    body = {"physical_address": lake.namespace("lake") + "/data/x", "checksum": "c", "size_bytes": 1}
    url = "/repositories/lake/branches/main/objects"
    answer = lake.http("PUT", url, query={"path": "a"}, json_body=body)
    assert answer.status == 400
    assert list(answer.json()) == ["message"]
    body["physical_address"] = "local:///elsewhere/x"
    assert lake.http("PUT", url, query={"path": "a"}, json_body=body).status == 201


@pytest.mark.parametrize("shallow", [None, True])
def test_copy_object_shares_what_is_staged_and_copies_what_is_committed(
    lake: Lake, shallow: bool | None
) -> None:
    address = upload(lake, "a")
    creation = sdk.ObjectCopyCreation(src_path="a", shallow=shallow)
    assert lake.sdk.objects_api.copy_object("lake", "main", "b", creation).physical_address == address
    assert tracked(lake) == 1
    lake.sdk.commits_api.commit("lake", "main", sdk.CommitCreation(message="m"))
    assert lake.sdk.objects_api.copy_object("lake", "main", "c", creation).physical_address != address
    assert tracked(lake) == 1


def test_a_copy_through_the_gateway_follows_the_same_rule(lake: Lake) -> None:
    s3 = s3_client(lake)
    address = upload(lake, "a")
    lake.sdk.branches_api.create_branch("lake", sdk.BranchCreation(name="side", source="main"))
    s3.copy_object(Bucket="lake", Key="main/b", CopySource="lake/main/a")
    s3.delete_object(Bucket="lake", Key="main/a")
    assert stat(lake, "b") == address
    assert s3.get_object(Bucket="lake", Key="main/b")["Body"].read() == b"content"
    assert tracked(lake) == 1
    s3.copy_object(Bucket="lake", Key="side/b", CopySource="lake/main/b")
    s3.copy_object(Bucket="lake", Key="main/c", CopySource="lake/main/b", MetadataDirective="REPLACE")
    assert lake.sdk.objects_api.stat_object("lake", "side", "b").physical_address != address
    assert stat(lake, "c") != address
    assert tracked(lake) == 1


def test_a_running_server_expires_what_it_tracks(tmp_path: Path) -> None:
    with lakefs_server(tmp_path, catalog=Settings(profile="design"), housekeeping_seconds=0.02) as lake:
        lake.repository("lake")
        upload(lake, "a")
        creation = sdk.ObjectCopyCreation(src_path="a")
        lake.sdk.objects_api.copy_object("lake", "main", "b", creation)
        time.sleep(0.1)
        assert tracked(lake) == 1
        lake.clock.advance(hours=49)
        until = time.monotonic() + 10
        while tracked(lake) and time.monotonic() < until:
            time.sleep(0.02)
        assert tracked(lake) == 0


def test_housekeeping_goes_on_after_a_failure_and_ends_when_closed() -> None:
    calls = threading.Semaphore(0)

    def work() -> None:
        calls.release()
        raise RuntimeError("the store is away")

    housekeeping = Housekeeping(work, 0.001)
    for _ in range(3):
        assert calls.acquire(timeout=10)
    housekeeping.close()
    while calls.acquire(blocking=False):
        pass
    assert not calls.acquire(timeout=0.05)
