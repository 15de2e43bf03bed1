"""The design's profile over HTTP and through the S3 gateway."""

import threading
from collections.abc import Iterator
from pathlib import Path

import lakefs_sdk as sdk
import pytest

from lakefs_embedded.catalog import Settings
from lakefs_embedded.catalog.tracked import Copies
from lakefs_embedded.server.service import Housekeeping
from tests.support.lakefs_server import Lake, lakefs_server


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
