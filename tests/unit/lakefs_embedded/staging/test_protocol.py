"""The committer's flow beside others who commit, write, reset and delete."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.kv import Store
from lakefs_embedded.catalog import Commit, Settings
from lakefs_embedded.errors import BranchNotFoundError, DirtyBranchError, NoChangesError, TooManyTriesError
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake

BRANCH_KEY = b"branches/main"


def at_branch_writes(store: Store, number: int, do: Callable[[], object]) -> WatchedStore:
    """Do something right before the n-th set_if on the branch (counted from 1)."""
    seen = 0

    def before(operation: Operation) -> None:
        nonlocal seen
        if operation.name == "set_if" and operation.key == BRANCH_KEY:
            seen += 1
            if seen == number:
                do()

    return WatchedStore(store, before)


def commit_on(lake: Lake, kv: Store, message: str = "commit", **more: bool) -> Commit:
    server = lake.another_server(kv)
    return server.commits.commit(lake.repository, "main", committer="tester", message=message, **more)


def test_a_later_seal_is_left_to_the_later_commit() -> None:
    """Identical start, another token sealed on top: our tokens are taken out, the other's stays."""
    lake = make_lake()
    lake.upload("ours")

    def seal() -> None:
        lake.upload("theirs")
        repository = lake.catalog.repositories.get_repository(lake.repository)
        lake.another_server().staging.protocol.seal(repository, "main")

    commit = commit_on(lake, at_branch_writes(lake.kv, 2, seal))
    branch = lake.catalog.branches.get_branch(lake.repository, "main")
    assert branch.commit_id == commit.id
    assert len(branch.sealed_tokens) == 1
    assert lake.paths(commit.id) == ["ours"]
    assert lake.paths() == ["ours", "theirs"]


def test_changes_sealed_after_the_look_at_a_merge_are_not_thrown_away() -> None:
    """A merge finds the branch clean; then a change is staged and sealed before the merge's last step."""
    lake = make_lake()
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("side", branch="side")
    lake.commit("side", "side")

    def stage_and_seal() -> None:
        lake.upload("late")
        lake.another_server().staging.protocol.seal(
            lake.catalog.repositories.get_repository(lake.repository), "main"
        )

    for write in (1, 2):
        server = lake.another_server(at_branch_writes(lake.kv, write, stage_and_seal))
        with pytest.raises(DirtyBranchError):
            server.merges.merge(lake.repository, "side", "main", committer="t")
        assert lake.paths() == ["late"]
        lake.catalog.branches.reset_branch(lake.repository, "main")


def test_tries_are_bounded_and_leave_the_changes_on_the_branch() -> None:
    lake = make_lake(settings=Settings(background=False, commit_tries=3))
    lake.upload("a")
    repository = lake.catalog.repositories.get_repository(lake.repository)
    other = lake.another_server()
    busy = True

    def disturb(operation: Operation) -> None:
        if busy and operation.name == "set_if" and operation.key == BRANCH_KEY:
            other.staging.protocol.seal(repository, "main")

    with pytest.raises(TooManyTriesError):
        commit_on(lake, WatchedStore(lake.kv, disturb))
    busy = False
    assert lake.paths() == ["a"]
    commit_on(lake, lake.kv)
    assert lake.paths("main@") == ["a"]


def test_a_commit_on_a_branch_deleted_meanwhile_fails_and_brings_no_branch_back() -> None:
    lake = make_lake()
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("a", branch="side")

    def delete(operation: Operation) -> None:
        if operation.name == "set_if" and operation.key.startswith(b"commits/"):
            lake.another_server().branches.delete_branch(lake.repository, "side")

    server = lake.another_server(WatchedStore(lake.kv, after=delete))
    with pytest.raises(BranchNotFoundError):
        server.commits.commit(lake.repository, "side", committer="t", message="m")
    with pytest.raises(BranchNotFoundError):
        lake.catalog.branches.get_branch(lake.repository, "side")


def test_each_refused_commit_leaves_one_sealed_token() -> None:
    lake = make_lake()
    for expected in (1, 2):
        with pytest.raises(NoChangesError):
            lake.commit()
        assert len(lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens) == expected
    lake.upload("a")
    lake.commit()
    assert lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens == ()
