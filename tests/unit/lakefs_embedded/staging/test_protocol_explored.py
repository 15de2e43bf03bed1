"""Two processes at one branch, in every order of their operations that can be told apart.

DREDGE_EXPLORE=all also lets one of them die at every operation.
"""

import itertools
import os
import uuid
from collections.abc import Callable, Mapping

import pytest

from lakefs_embedded.catalog import Catalog, Commit, Settings
from lakefs_embedded.errors import BranchNotFoundError, DirtyBranchError, PreconditionError, TooManyTriesError
from lakefs_embedded.kv import Store
from tests.support.lakes import Lake, make_lake
from tests.support.overlaps import listing, log_ids, stage
from tests.support.turns import Explored, Scene, Stage, explore

pytestmark = pytest.mark.hunt

CRASHES = 1 if os.environ.get("DREDGE_EXPLORE") == "all" else 0
OURS, THEIRS = "ours", "theirs"
Act = Callable[[Catalog], object]


@pytest.fixture(autouse=True)
def _tokens_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr("lakefs_embedded.refs.records.uuid.uuid4", lambda: uuid.UUID(int=next(numbers)))


def commit(message: str, **more: bool) -> Act:
    return lambda server: server.commits.commit("lake", "main", committer="t", message=message, **more)


def run(
    prepare: Callable[[Lake], None],
    actors: Mapping[str, Act],
    check: Callable[[Lake, Mapping[str, object]], None],
    in_log: bool = True,
    drain: bool = True,
) -> Explored:
    """Explore two actors on a lake, then what holds after all of them."""

    def scene() -> Scene:
        lake = make_lake(settings=Settings(background=False))
        prepare(lake)
        old = set(log_ids(lake.catalog, "lake"))

        def check_all(results: Mapping[str, object]) -> None:
            check(lake, results)
            before = listing(lake.another_server(), "lake")
            for result in results.values():
                if isinstance(result, Commit) and in_log:
                    assert result.id in log_ids(lake.catalog, "lake")
            assert old <= set(log_ids(lake.catalog, "lake"))
            lake.another_server().resume()
            lake.commit("final", allow_empty=True)
            assert listing(lake.another_server(), "lake", "main@") == before
            assert lake.catalog.branches.get_branch("lake", "main").sealed_tokens == ()

        def on_server(act: Act) -> Callable[[Store], object]:
            def body(kv: Store) -> object:
                server = lake.another_server(kv)
                if not drain and not CRASHES:
                    server.staging.dropper.wake = lambda: None  # type: ignore[method-assign]
                return act(server)

            return body

        return Scene(lake.kv, {name: on_server(act) for name, act in actors.items()}, check_all)

    return explore(scene, crashes=CRASHES)


def died(results: Mapping[str, object]) -> bool:
    return any(type(result).__name__ == "CrashError" for result in results.values())


def test_two_commits_take_everything_once() -> None:
    def prepare(lake: Lake) -> None:
        stage(lake.catalog, "lake", "sealed", "1")
        lake.catalog.staging.protocol.seal(lake.catalog.repositories.get_repository("lake"), "main")
        stage(lake.catalog, "lake", "current", "2")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        assert listing(lake.catalog, "lake") == {"sealed": "1", "current": "2"}
        if died(results):
            return
        assert listing(lake.catalog, "lake", "main@") == {"sealed": "1", "current": "2"}
        (won,) = [result for result in results.values() if isinstance(result, Commit)]
        assert log_ids(lake.catalog, "lake")[0] == won.id

    explored = run(prepare, {OURS: commit("a"), THEIRS: commit("b")}, check, drain=False)
    assert {("ok", "NoChangesError"), ("NoChangesError", "ok")} <= explored.outcomes.keys()


@pytest.mark.parametrize("no_tombstone", [None, False, True])
def test_a_write_or_delete_beside_a_commit_is_in_it_or_still_staged(no_tombstone: bool | None) -> None:
    def prepare(lake: Lake) -> None:
        stage(lake.catalog, "lake", "kept", "1")
        stage(lake.catalog, "lake", "path", "2")

    def write(server: Catalog) -> None:
        if no_tombstone is None:
            stage(server, "lake", "path", "3")
        else:
            server.objects.delete_object("lake", "main", "path", no_tombstone=no_tombstone)

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        after = {"kept": "1"} | ({"path": "3"} if no_tombstone is None else {})
        before = {"kept": "1", "path": "2"}
        assert listing(lake.catalog, "lake") == after or (
            died(results) and listing(lake.catalog, "lake") == before
        )
        if isinstance(results[THEIRS], Commit):
            assert listing(lake.catalog, "lake", results[THEIRS].id) in (after, before)

    explored = run(prepare, {OURS: write, THEIRS: commit("b")}, check)
    assert ("ok", "ok") in explored.outcomes


def test_a_reader_beside_a_commit_sees_what_was_there() -> None:
    """Nothing is written meanwhile: the commit moves what is read from tokens to ranges."""
    contents = {"committed": "1", "over": "2", "staged": "3"}

    def prepare(lake: Lake) -> None:
        for path in ("committed", "over", "gone"):
            stage(lake.catalog, "lake", path, "1")
        lake.commit("base")
        stage(lake.catalog, "lake", "over", "2")
        lake.catalog.staging.protocol.seal(lake.catalog.repositories.get_repository("lake"), "main")
        lake.catalog.objects.delete_object("lake", "main", "gone")
        stage(lake.catalog, "lake", "staged", "3")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        assert results[OURS] == contents or died(results)
        assert listing(lake.catalog, "lake") == contents

    explored = run(prepare, {OURS: lambda server: listing(server, "lake"), THEIRS: commit("b")}, check)
    assert ("ok", "ok") in explored.outcomes


@pytest.mark.parametrize("kind", ["reset", "object", "common_prefix"])
def test_a_reset_beside_a_commit_is_before_or_after_it(kind: str) -> None:
    def prepare(lake: Lake) -> None:
        stage(lake.catalog, "lake", "a", "1")
        lake.commit("base")
        stage(lake.catalog, "lake", "a", "2")

    def reset(server: Catalog) -> None:
        path = "a" if kind == "object" else ""
        server.branches.reset_branch("lake", "main", kind=kind, path=path)  # type: ignore[arg-type]

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        made = isinstance(results[THEIRS], Commit)
        seen = listing(lake.catalog, "lake")
        assert seen in ({"a": "1"}, {"a": "2"})
        if not died(results):
            # Taken before the commit could have it, or after the commit and on top of it.
            assert seen == {"a": "1"} or made

    explored = run(prepare, {OURS: reset, THEIRS: commit("b")}, check, drain=False)
    assert len(explored.outcomes) >= 2


def test_a_merge_beside_a_write_keeps_both_or_is_refused() -> None:
    def prepare(lake: Lake) -> None:
        lake.catalog.branches.create_branch("lake", "side", "main")
        stage(lake.catalog, "lake", "side", "1", branch="side")
        lake.commit("side", "side")

    def merge(server: Catalog) -> str:
        return server.merges.merge("lake", "side", "main", committer="t")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        seen = listing(lake.catalog, "lake")
        if not died(results):
            assert seen.get("mine") == "2"
            assert (seen.get("side") == "1") == (not isinstance(results[OURS], DirtyBranchError))
        tree = listing(lake.catalog, "lake", "main@")
        assert tree in ({}, {"side": "1"})  # what was staged is not in a merge

    explored = run(prepare, {OURS: merge, THEIRS: lambda server: stage(server, "lake", "mine", "2")}, check)
    assert {("DirtyBranchError", "ok"), ("ok", "ok")} <= explored.outcomes.keys()


def test_a_hard_reset_beside_a_commit_moves_the_head_and_keeps_what_is_staged() -> None:
    """Resolved before the commit and done after it, it takes the commit off the branch: that is what it is for."""

    def prepare(lake: Lake) -> None:
        stage(lake.catalog, "lake", "a", "1")
        lake.commit("base")
        stage(lake.catalog, "lake", "b", "2")

    def reset(server: Catalog) -> None:
        server.branches.hard_reset("lake", "main", "main")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        head = log_ids(lake.catalog, "lake")[0]
        made = isinstance(results[THEIRS], Commit) and head != results[THEIRS].id
        seen = listing(lake.catalog, "lake")
        assert seen == ({"a": "1"} if made else {"a": "1", "b": "2"}) or (
            died(results) and seen == {"a": "1"}
        )

    explored = run(prepare, {OURS: reset, THEIRS: commit("b")}, check, in_log=False)
    assert {("ok", "ok"), ("DirtyBranchError", "ok")} <= explored.outcomes.keys()


def test_a_conditional_write_beside_a_commit_of_the_path_is_refused() -> None:
    """Also while the path moves from a token that is emptied into a head that was not read yet."""

    def prepare(lake: Lake) -> None:
        lake.upload("path", b"1")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        assert isinstance(results[OURS], PreconditionError) or died(results)
        assert lake.read("path") == b"1"

    def write(server: Catalog) -> None:
        server.objects.upload_object("lake", "main", "path", b"2", if_none_match=True)

    explored = run(prepare, {OURS: write, THEIRS: commit("b")}, check)
    assert explored.schedules > 5


def test_new_metadata_beside_a_commit_does_not_bring_an_older_object_back() -> None:
    def prepare(lake: Lake) -> None:
        stage(lake.catalog, "lake", "path", "1")
        lake.commit("base")
        stage(lake.catalog, "lake", "path", "2")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        assert listing(lake.catalog, "lake") == {"path": "2"}
        refused = isinstance(results[OURS], TooManyTriesError)  # its row went while it was looking
        if not died(results) and not refused:
            assert lake.catalog.reading.stat("lake", "main", "path").metadata == {"k": "v"}

    def update(server: Catalog) -> None:
        server.objects.update_user_metadata("lake", "main", "path", {"k": "v"})

    explored = run(prepare, {OURS: update, THEIRS: commit("b")}, check)
    assert ("ok", "ok") in explored.outcomes


def test_a_branch_deletion_beside_a_commit_leaves_no_branch() -> None:
    def prepare(lake: Lake) -> None:
        lake.catalog.branches.create_branch("lake", "side", "main")
        stage(lake.catalog, "lake", "a", "1", branch="side")

    def check(lake: Lake, results: Mapping[str, object]) -> None:
        if not died(results):
            with pytest.raises(BranchNotFoundError):
                lake.catalog.branches.get_branch("lake", "side")
            if isinstance(results[OURS], Commit):
                assert listing(lake.catalog, "lake", results[OURS].id) == {"a": "1"}
            lake.another_server().resume()
            assert [name for name in partitions(lake) if b"lake-side" in name] == []

    def commit_side(server: Catalog) -> object:
        return server.commits.commit("lake", "side", committer="t", message="m")

    actors: dict[str, Act] = {
        OURS: commit_side,
        THEIRS: lambda server: server.branches.delete_branch("lake", "side"),
    }
    explored = run(prepare, actors, check, in_log=False, drain=False)
    assert {("ok", "ok"), ("BranchNotFoundError", "ok")} <= explored.outcomes.keys()


def partitions(lake: Lake) -> list[bytes]:
    return list(lake.kv._partitions)  # type: ignore[attr-defined]


def test_an_earlier_commit_took_some_and_others_sealed_meanwhile() -> None:
    """Ours [t2 t1]; the branch has [t3 t2] when the earlier commit has taken t1: t3 stays, t2 is committed."""
    lake = make_lake(settings=Settings(background=False))
    stage_ = Stage(lake.kv)

    def sealed_by(name: str, count: int) -> None:
        stage(lake.another_server(), "lake", name, name)
        stage_.start(name, lambda kv: commit(name)(lake.another_server(kv)))
        while len(lake.catalog.branches.get_branch("lake", "main").sealed_tokens) < count:
            stage_.step(name)

    sealed_by("a", 1)
    sealed_by("b", 2)
    stage(lake.another_server(), "lake", "c", "c")
    lake.another_server().staging.protocol.seal(lake.catalog.repositories.get_repository("lake"), "main")
    for name in "ab":
        while name in stage_.pending():
            stage_.step(name)
    first, second = stage_.results["a"], stage_.results["b"]
    assert isinstance(first, Commit)
    assert isinstance(second, Commit)
    assert second.parents == (first.id,)
    assert listing(lake.catalog, "lake", first.id) == {"a": "a"}
    assert listing(lake.catalog, "lake", second.id) == {"a": "a", "b": "b"}
    assert listing(lake.catalog, "lake") == {"a": "a", "b": "b", "c": "c"}
    assert len(lake.catalog.branches.get_branch("lake", "main").sealed_tokens) == 1
