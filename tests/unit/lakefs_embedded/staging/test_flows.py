"""The writer's and the reader's flow, and that writing twice is writing once."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable

import pytest

from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.errors import (
    BranchNotFoundError,
    NoChangesError,
    TooManyTriesError,
)
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


def test_a_write_gives_up_after_three_tries_and_says_so() -> None:
    lake = make_lake()
    with pytest.raises(TooManyTriesError) as caught:
        server_that_meets(lake, "after", times=3).objects.upload_object(lake.repository, "main", "a", b"a")
    assert caught.value.status == 429
    server_that_meets(lake, "after", times=2).objects.upload_object(lake.repository, "main", "b", b"b")


def test_a_write_to_a_branch_deleted_meanwhile_is_not_acknowledged() -> None:
    lake = make_lake()
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    writer = lake.another_server()
    writer.objects.upload_object(lake.repository, "side", "a", b"a")
    lake.catalog.branches.delete_branch(lake.repository, "side")
    with pytest.raises(BranchNotFoundError):
        writer.objects.upload_object(lake.repository, "side", "b", b"b")


def test_many_writers_and_committers_lose_nothing() -> None:
    """Four writers and two committers on two servers, until there are a dozen commits."""
    lake = make_lake(settings=Settings(commit_tries=50, write_tries=50))
    servers = [lake.another_server() for _ in range(2)]
    expected: dict[str, bytes] = {}
    errors: list[BaseException] = []
    commits = []
    done = threading.Event()

    def write(server: Catalog, name: str) -> None:
        for number in itertools.count():
            if done.is_set():
                return
            path = f"{name}/{number % 15:02}"
            server.objects.upload_object(lake.repository, "main", path, b"%d" % number)
            expected[path] = b"%d" % number
            if number % 4 == 0:
                server.objects.delete_object(lake.repository, "main", path)
                del expected[path]

    def commit(server: Catalog) -> None:
        while len(commits) < 12:
            with contextlib.suppress(NoChangesError):
                commits.append(server.commits.commit(lake.repository, "main", committer="t", message="m"))
        done.set()

    def watched(act: Callable[..., None], *arguments: object) -> None:
        try:
            act(*arguments)
        except BaseException as error:
            errors.append(error)
            done.set()

    threads = [threading.Thread(target=watched, args=(commit, server)) for server in servers]
    threads += [
        threading.Thread(target=watched, args=(write, servers[number % 2], f"w{number}"))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()
    assert errors == []
    lake.commit("last", allow_empty=True)
    lake.catalog.close()
    assert {path: lake.read(path, "main@") for path in lake.paths("main@")} == expected
    assert lake.paths("main") == lake.paths("main@")
    history = {found.id for found in lake.catalog.commits.log(lake.repository, "main", amount=1000).results}
    assert {commit.id for commit in commits} <= history
