"""Lock freedom, counted in operations on the branch's record, and what merges cost.

Nobody waits for anybody: a compare-and-set fails only because another one succeeded, so in any stretch
without a success no process does more than three operations on the record (read, and two attempts that the
first success of the stretch ends). A commit has two successes; so it can be in the way of another one at most
twice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from dredge.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.catalog import Catalog, Commit, Settings
from lakefs_embedded.errors import NoChangesError
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake
from tests.support.overlaps import listing, stage
from tests.support.turns import Actor, TurnStore, preempted_schedules, random_choice, run_turns

pytestmark = pytest.mark.hunt

SEEDS = int(os.environ.get("DREDGE_EXAMPLES", "20"))
BRANCH = b"branches/main"


@dataclass
class Trace:
    """Operations on the branch's record in the order in which they happened: (actor, name, succeeded)."""

    steps: list[tuple[str, str, bool]] = field(default_factory=list)

    def watch(self, actor: str, kv: Store) -> Store:
        trace = self.steps

        class Watched(TurnStore):
            def get(self, partition: bytes, key: bytes) -> bytes:
                value = kv.get(partition, key)
                if key == BRANCH:
                    trace.append((actor, "get", True))
                return value

            def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
                try:
                    kv.set_if(partition, key, value, predicate)
                except PredicateFailedError:
                    if key == BRANCH:
                        trace.append((actor, "set_if", False))
                    raise
                if key == BRANCH:
                    trace.append((actor, "set_if", True))

        return Watched(kv, lambda _: "")  # type: ignore[return-value]


def committers(names: str, lake: Lake, trace: Trace) -> Mapping[str, Actor]:
    def actor(name: str) -> Actor:
        def act(kv: Store) -> object:
            server = lake.another_server(trace.watch(name, kv))
            stage(server, "lake", name, name)
            return server.commits.commit("lake", "main", committer="t", message=name)

        return act

    return {name: actor(name) for name in names}


def race(names: str, schedule: list[str] | Callable[[list[str]], str]) -> Trace:
    """Let committers race; check progress and retries; returns what happened to the record."""
    lake = make_lake(settings=Settings(background=False, commit_tries=100, write_tries=100))
    trace = Trace()
    results, taken = run_turns(lake.kv, committers(names, lake, trace), schedule)
    assert all(isinstance(result, Commit | NoChangesError) for result in results.values()), (results, taken)
    assert listing(lake.catalog, "lake") == {name: name for name in names}, taken
    require_progress(trace, taken)
    failures = Counter(name for name, _, succeeded in trace.steps if not succeeded)
    for name, count in failures.items():
        others = sum(succeeded and who != name for who, what, succeeded in trace.steps if what == "set_if")
        assert count <= others <= 2 * (len(names) - 1), taken
    return trace


def require_progress(trace: Trace, taken: object) -> None:
    """Between two successes nobody does more than three operations for its own change."""
    attempts: Counter[str] = Counter()
    read: set[str] = set()
    for name, what, succeeded in trace.steps:
        if what == "get":
            read.add(name)
            continue
        if succeeded:
            attempts.clear()
            read.clear()
            continue
        # It was read before the last success, or it would have succeeded.
        assert name not in read, f"{name} failed though nobody had changed what it read: {taken}"
        attempts[name] += 1
        assert attempts[name] == 1, f"{name} failed twice while nobody succeeded: {taken}"


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_every_failed_attempt_is_due_to_a_success_of_another_commit(names: str) -> None:
    most = 0
    for seed in range(SEEDS):
        trace = race(names, random_choice(seed))
        failures = Counter(name for name, _, succeeded in trace.steps if not succeeded)
        most = max(most, *failures.values(), 0)
    assert most >= len(names) - 1  # they did race


def test_of_two_commits_with_two_changes_of_turn_none_ever_waits() -> None:
    for schedule in list(preempted_schedules("ab", 18, 2))[::8]:
        race("ab", schedule)


def test_a_process_that_stops_for_ever_anywhere_in_its_commit_is_in_nobodys_way() -> None:
    for count in range(30):
        lake = make_lake(settings=Settings(background=False))
        trace = Trace()
        actors = committers("ab", lake, trace)
        results, taken = run_turns(lake.kv, actors, ["a"] * count + ["b"] * 100)
        # b ran to its end while a stood still, and read its record as often as alone or once more.
        own = [step for step in trace.steps if step[0] == "b"]
        assert isinstance(results["b"], Commit), taken
        assert sum(what == "set_if" and not succeeded for _, what, succeeded in own) == 0, taken


# --- merges, reverts and picks move metadata only -----------------------------------------------------------


def with_side(lake: Lake) -> None:
    """A large common part in many ranges, and one change on a branch."""
    for number in range(40):
        lake.upload(f"common/{number:02}")
    lake.commit("base")
    lake.catalog.branches.create_branch("lake", "side", "main")
    lake.upload("side/new", branch="side")
    lake.commit("side", "side")
    lake.upload("main/new")
    lake.commit("main")


def ranges(lake: Lake) -> set[str]:
    return set(lake.keys("_lakefs/"))


@pytest.mark.parametrize("call", ["merge", "cherry_pick", "revert", "hard_reset"])
def test_merges_reverts_and_picks_write_no_data_and_few_ranges(call: str) -> None:
    lake = make_lake(settings=Settings(background=False, range_raggedness=4))
    with_side(lake)
    before, objects = ranges(lake), lake.keys()
    store = WatchedStore(lake.kv)
    server = lake.another_server(store)
    calls: Mapping[str, Callable[[Catalog], object]] = {
        "merge": lambda catalog: catalog.merges.merge("lake", "side", "main", committer="t"),
        "cherry_pick": lambda catalog: catalog.merges.cherry_pick("lake", "main", "side", committer="t"),
        "revert": lambda catalog: catalog.merges.revert("lake", "main", "main", committer="t"),
        "hard_reset": lambda catalog: catalog.branches.hard_reset("lake", "main", "main~1"),
    }
    calls[call](server)
    assert lake.keys() == objects
    assert len(before) >= 8
    assert len(ranges(lake) - before) <= (0 if call == "hard_reset" else 3)  # what changed, and a metarange
    written = Counter(operation.key.split(b"/")[0] for operation in store.done if operation.writes)
    assert written.pop(b"branches") <= 2
    assert written.pop(b"commits", 0) <= 1
    assert sum(written.values()) <= 2  # a token queued and its record removed again


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
