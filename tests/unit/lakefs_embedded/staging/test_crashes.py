"""A process that dies after any write to the key-value store loses no acknowledged change."""

import itertools
from collections.abc import Callable

from lakefs_embedded.catalog import Catalog
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


def test_a_restart_goes_on_with_the_tokens_that_were_queued() -> None:
    for count, lake in crash_at_every_write(commit):
        queued = [key.decode() for key in lake.rows("cleanup-tokens")]
        lake.another_server().resume()
        assert lake.rows("cleanup-tokens") == [], count
        for token in queued:
            assert lake.rows(token) == [], count
        assert content(lake) == WANTED, count
