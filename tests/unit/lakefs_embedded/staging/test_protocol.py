"""The committer's flow beside others who commit, write, reset and delete."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.kv import Store
from lakefs_embedded.catalog import Commit, Settings
from lakefs_embedded.errors import BranchNotFoundError, DirtyBranchError, NoChangesError, TooManyTriesError
from lakefs_embedded.staging.protocol import overlap
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake

BRANCH_KEY = b"branches/main"


@pytest.mark.parametrize(
    ("ours", "present", "expected"),
    [
        ("321", "321", "321"),  # nobody else
        ("321", "54321", "321"),  # others sealed meanwhile
        ("321", "543", "3"),  # an earlier commit took 2 and 1
        ("321", "3", "3"),
        ("321", "32", "32"),
        ("321", "54", ""),  # a later commit took all
        ("321", "", ""),
        ("", "21", ""),
        ("321", "21", ""),  # never happens: the newest of ours is gone, so all older are
    ],
)
def test_the_beginning_of_our_tokens_is_sought_at_the_end_of_the_branchs(
    ours: str, present: str, expected: str
) -> None:
    assert overlap(tuple(ours), tuple(present)) == tuple(expected)


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


def messages(lake: Lake, ref: str = "main") -> list[str]:
    return [commit.message for commit in lake.catalog.commits.log(lake.repository, ref).results]


def test_a_commit_takes_few_branch_operations_when_alone() -> None:
    lake = make_lake()
    lake.upload("a")
    kv = WatchedStore(lake.kv)
    commit_on(lake, kv)
    on_branch = [operation.name for operation in kv.done if operation.key == BRANCH_KEY]
    # read, seal, fast path; then the dropper looks for references
    assert on_branch == ["get", "set_if", "set_if", "get"]


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


def test_a_later_commit_that_took_all_makes_ours_empty() -> None:
    lake = make_lake()
    lake.upload("a")

    def commit_later() -> None:
        lake.upload("b")
        commit_on(lake, lake.kv, "later")

    with pytest.raises(NoChangesError):
        commit_on(lake, at_branch_writes(lake.kv, 2, commit_later), "ours")
    assert messages(lake) == ["later", "Repository created"]
    assert lake.paths("main@") == ["a", "b"]


def test_an_empty_commit_is_made_on_the_later_one_when_it_is_allowed() -> None:
    lake = make_lake()
    lake.upload("a")
    store = at_branch_writes(lake.kv, 2, lambda: commit_on(lake, lake.kv, "later"))
    ours = commit_on(lake, store, "ours", allow_empty=True)
    assert messages(lake) == ["ours", "later", "Repository created"]
    assert lake.paths(ours.id) == ["a"]


def test_a_head_moved_by_a_hard_reset_is_built_on() -> None:
    lake = make_lake()
    first = lake.catalog.commits.get_commit(lake.repository, "main")
    lake.upload("a")
    lake.commit("dropped")
    store = at_branch_writes(
        lake.kv, 2, lambda: lake.another_server().branches.hard_reset(lake.repository, "main", first.id)
    )
    assert commit_on(lake, store, "empty", allow_empty=True).parents == (first.id,)
    assert lake.paths() == []


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
