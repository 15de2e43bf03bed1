"""Nobody waits for anybody at a branch, and what merges cost."""

from __future__ import annotations

from functools import partial

import pytest

from dredge.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.catalog import Commit, Settings
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake
from tests.support.overlaps import stage
from tests.support.turns import Actor, TurnStore, run_turns

pytestmark = pytest.mark.hunt

BRANCH = b"branches/main"


def test_a_process_that_stops_for_ever_anywhere_in_its_commit_is_in_nobodys_way() -> None:
    for count in range(30):
        lake = make_lake(settings=Settings(background=False))
        refused: list[bytes] = []

        class Noting(TurnStore):
            def set_if(
                self,
                partition: bytes,
                key: bytes,
                value: bytes,
                predicate: bytes | None,
                refused: list[bytes] = refused,
            ) -> None:
                try:
                    super().set_if(partition, key, value, predicate)
                except PredicateFailedError:
                    refused.append(key)
                    raise

        def commit(name: str, kv: Store, lake: Lake = lake) -> object:
            server = lake.another_server(kv)
            stage(server, "lake", name, name)
            return server.commits.commit("lake", "main", committer="t", message=name)

        actors: dict[str, Actor] = {
            "a": partial(commit, "a"),
            "b": lambda kv, store=Noting: commit("b", store(kv, lambda _: "")),  # type: ignore[arg-type, misc]
        }
        results, taken = run_turns(lake.kv, actors, ["a"] * count + ["b"] * 100)
        # b ran to its end while a stood still.
        assert isinstance(results["b"], Commit), taken
        assert BRANCH not in refused, taken


# --- merges, reverts and picks move metadata only -----------------------------------------------------------


# --- the drop of tokens and the end of a process ------------------------------------------------------------


def test_a_drop_that_died_half_way_goes_on_and_forgets_no_row() -> None:
    lake = make_lake(settings=Settings(background=False))
    for number in range(5):
        lake.upload(f"{number}")
    (token,) = lake.tokens()
    deleted = 0

    def fail(operation: Operation) -> None:
        nonlocal deleted
        deleted += operation.name == "delete"
        if deleted == 3:
            raise KeyNotFoundError("the store is gone")

    server = lake.another_server(WatchedStore(lake.kv, before=fail))
    with pytest.raises(KeyNotFoundError):
        server.commits.commit("lake", "main", committer="t", message="m")
    assert len(lake.rows(token)) == 3
    assert lake.rows("cleanup-tokens") == [token.encode()]
    lake.another_server().resume()
    assert lake.rows(token) == []
    assert lake.rows("cleanup-tokens") == []
    assert lake.paths("main@") == [str(number) for number in range(5)]
