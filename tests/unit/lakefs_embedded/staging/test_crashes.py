"""A process that dies after any write to the key-value store loses no acknowledged change."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import BranchNotFoundError
from tests.support.faulty import CrashError, crash_after_writes
from tests.support.lakes import Lake, make_lake


def prepared_lake() -> Lake:
    """Committed: kept, changed, deleted. Staged in a sealed token and in the current one: the changes."""
    lake = make_lake()
    for path in ("changed", "deleted", "kept"):
        lake.upload(path, b"old")
    lake.commit("base")
    lake.upload("changed", b"new")
    lake.catalog.staging.protocol.seal(lake.catalog.repositories.get_repository(lake.repository), "main")
    lake.catalog.objects.delete_object(lake.repository, "main", "deleted")
    lake.upload("added", b"new")
    return lake


def content(lake: Lake, ref: str = "main") -> dict[str, bytes]:
    return {path: lake.read(path, ref) for path in lake.paths(ref)}


WANTED = {"added": b"new", "changed": b"new", "kept": b"old"}


def crash_at_every_write(act: Callable[[Catalog, Lake], object]) -> list[tuple[int, Lake]]:
    """One lake for each number of writes after which the process died, the last one without a crash."""
    lakes = []
    for count in itertools.count():
        lake = prepared_lake()
        try:
            act(lake.another_server(crash_after_writes(lake.kv, count)), lake)
        except CrashError:
            lakes.append((count, lake))
            continue
        lakes.append((count, lake))
        return lakes
    raise AssertionError


def commit(server: Catalog, lake: Lake) -> object:
    return server.commits.commit(lake.repository, "main", committer="t", message="crashing")


def test_what_a_commit_that_died_leaves_behind() -> None:
    seen = []
    for _, lake in crash_at_every_write(commit):
        branch = lake.catalog.branches.get_branch(lake.repository, "main")
        repository = lake.catalog.repositories.get_repository(lake.repository)
        messages = {found.message for found in lake.catalog.refs.commits.all(repository)}
        head = lake.catalog.commits.get_commit(lake.repository, "main").message
        seen.append(
            (head, "crashing" in messages, len(branch.sealed_tokens), len(lake.rows("cleanup-tokens")))
        )
    assert seen[0] == ("base", False, 1, 0)  # nothing happened
    assert seen[1] == ("base", False, 2, 0)  # sealed, nothing lost
    assert seen[2] == ("base", True, 2, 0)  # a dangling commit
    assert seen[3] == ("crashing", True, 0, 0)  # orphan tokens: nobody queued them
    assert seen[4] == ("crashing", True, 0, 1)
    assert seen[-1] == ("crashing", True, 0, 0)


def test_the_next_commit_finishes_what_one_that_died_began() -> None:
    for count, lake in crash_at_every_write(commit):
        lake.commit("next", allow_empty=True)
        assert content(lake, "main@") == WANTED, count
        assert lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens == ()


def test_a_restart_goes_on_with_the_tokens_that_were_queued() -> None:
    for count, lake in crash_at_every_write(commit):
        queued = [key.decode() for key in lake.rows("cleanup-tokens")]
        lake.another_server().resume()
        assert lake.rows("cleanup-tokens") == [], count
        for token in queued:
            assert lake.rows(token) == [], count
        assert content(lake) == WANTED, count


@pytest.mark.parametrize("kind", ["object", "common_prefix"])
@pytest.mark.parametrize("path", ["changed", "deleted", "added", "kept"])
def test_a_reset_that_died_did_all_or_some_of_it_and_nothing_else(kind: str, path: str) -> None:
    after = {"changed": b"old", "deleted": b"old", "added": None, "kept": b"old"}[path]

    def reset(server: Catalog, lake: Lake) -> None:
        server.branches.reset_branch(lake.repository, "main", kind=kind, path=path)  # type: ignore[arg-type]

    for count, lake in crash_at_every_write(reset):
        found = content(lake)
        assert found.pop(path, None) in (WANTED.get(path), after), count
        assert found == {other: value for other, value in WANTED.items() if other != path}, count
    assert content(lake).get(path) == after


def test_a_branch_delete_that_died_leaves_the_branch_whole_or_gone() -> None:
    def delete(server: Catalog, lake: Lake) -> None:
        lake.catalog.branches.create_branch(lake.repository, "side", "main")
        lake.upload("side", branch="side")
        server.branches.delete_branch(lake.repository, "side")

    for count, lake in crash_at_every_write(delete):
        if count == 0:
            assert "side" in lake.paths("side")
        else:
            with pytest.raises(BranchNotFoundError):
                lake.catalog.branches.get_branch(lake.repository, "side")
        assert content(lake) == WANTED


def test_a_merge_that_died_leaves_the_destination_as_it_was_or_merged() -> None:
    def merge(server: Catalog, lake: Lake) -> None:
        lake.commit("clean")
        lake.catalog.branches.create_branch(lake.repository, "side", "main")
        lake.upload("side", branch="side")
        lake.commit("side", "side")
        server.merges.merge(lake.repository, "side", "main", committer="t")

    for count, lake in crash_at_every_write(merge):
        found = content(lake)
        assert found in (WANTED, WANTED | {"side": b"content"}), count
        lake.upload("later")
        lake.commit("later")
        assert content(lake, "main@") == found | {"later": b"content"}, count
