"""The writer's and the reader's flow, and that writing twice is writing once."""

from __future__ import annotations

import pytest

from lakefs_embedded.catalog import Catalog, Settings
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake


def commit_elsewhere(lake: Lake) -> None:
    lake.another_server().commits.commit(
        lake.repository, "main", committer="t", message="elsewhere", allow_empty=True
    )


def server_that_meets(lake: Lake, when: str, times: int = 1) -> Catalog:
    """A server beside which a commit happens right before its writes to staging ("before") or after them."""
    left = times

    def meet(operation: Operation) -> None:
        nonlocal left
        if left and operation.writes and b":" in operation.partition:
            left -= 1
            commit_elsewhere(lake)

    store = WatchedStore(lake.kv, before=meet) if when == "before" else WatchedStore(lake.kv, after=meet)
    return lake.another_server(store)


def test_a_write_into_a_token_that_is_dropped_already_is_not_lost() -> None:
    """The writer's cached branch names a token that another server's commit has emptied and dropped."""
    lake = make_lake(settings=Settings(background=False))
    writer = lake.another_server()
    writer.objects.upload_object(
        lake.repository, "main", "a", b"a"
    )  # the branch is in the writer's cache now
    commit_elsewhere(lake)
    writer.objects.upload_object(lake.repository, "main", "b", b"b")
    assert lake.paths() == ["a", "b"]
    lake.commit()
    assert lake.paths("main@") == ["a", "b"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("no_tombstone", [False, True])
def test_a_delete_that_meets_a_commit_is_not_lost(when: str, no_tombstone: bool) -> None:
    lake = make_lake()
    lake.upload("a")
    server_that_meets(lake, when).objects.delete_object(
        lake.repository, "main", "a", no_tombstone=no_tombstone
    )
    assert lake.paths() == []
    lake.commit("last", allow_empty=True)
    assert lake.paths("main@") == []
