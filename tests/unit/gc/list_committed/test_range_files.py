"""Range files that no active commit names: without rules all of them count."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dredge.errors import DredgeError, FormatError
from dredge.gc.index.ranges import Metaranges, RangeFacts
from dredge.gc.list_committed import step
from dredge.gc.list_committed.step import Expired, find_expired
from dredge.gc.run import Run
from dredge.gc.state import RunState, StateStore
from dredge.gc.subtract import SubtractOutput
from dredge.lakefs import Commit
from dredge.storage import open_deleter
from tests.support.gc import World, make_world, summary_of


def run(world: World, **settings: Any) -> tuple[Run, dict[str, int]]:
    made = world.collected(**settings)
    return made, dict(summary_of(made, "list_committed").counts)


def state_after(made: Run) -> RunState:
    state = StateStore(made.state).current("lake", made.plan.namespace).state
    assert state is not None
    assert state.run_id == made.plan.run_id
    return state


def test_the_first_run_without_rules_looks_itself_at_what_only_the_rules_made_active() -> None:
    world = make_world(mode="auto", rules=30)
    world.commit("a", b"1")
    catalog = world.lake.catalog
    catalog.branches.create_branch("lake", "side", "main")
    address = world.upload("b", b"of a branch that goes", "side")
    world.age(days=2)
    world.lake.commit("side", "side")
    world.age(days=2)
    before, _ = run(world)
    assert not state_after(before).all_commits
    catalog.branches.delete_branch("lake", "side")
    catalog.garbage.delete_gc_rules("lake")
    world.age(days=2)
    made, counts = run(world)
    assert made.plan.mode == "optimized"
    assert counts["range_files_looked_at"] == 3, (
        "that branch's range and metarange, and a file that is neither"
    )
    assert address in world.data()


def test_counted_afresh_what_history_named_long_ago_is_no_dropped_range() -> None:
    world = make_world(mode="auto", tuning={"explain_ranges_max": 100, "counted_layers_max": 1}, rules=5)
    world.upload("a", b"1")
    world.commit("b", b"expired")
    world.age(days=2)
    world.lake.catalog.objects.delete_object("lake", "main", "b")
    world.lake.commit("second")
    world.age(days=9)
    world.commit("tick", b"tick")
    for _ in range(2):
        world.age(days=9)
        orphan = world.orphan("data/other/orphan")
        world.age(days=2)
        made, counts = run(world)
        assert "dropped_ranges" not in counts
        assert orphan not in world.data()
        world.assert_readable()
    assert made.plan.mode == "optimized"
    assert counts["expired_commits"]


@dataclass(frozen=True)
class Dropped:
    world: World
    dangling: str
    expired: str
    key: str


def with_dropped(explain_ranges_max: int = 100) -> Dropped:
    world = make_world(mode="auto", tuning={"explain_ranges_max": explain_ranges_max}, rules=5)
    catalog = world.lake.catalog
    world.commit("a", b"1")
    catalog.branches.create_branch("lake", "side", "main")
    dangling = world.upload("b", b"dangling", "side")
    files = set(world.lake.keys("_lakefs/"))
    world.lake.commit("side", "side")
    files = set(world.lake.keys("_lakefs/")) - files
    expired = world.commit("c", b"expired")
    catalog.objects.delete_object("lake", "main", "c")
    world.age(days=2)
    world.lake.commit("third")
    made, _ = run(world)
    ranges = made.folder.read_part(state_after(made).ranges)["range_id"].to_pylist()
    catalog.branches.delete_branch("lake", "side")
    world.age(days=9)
    world.commit("tick", b"tick")
    world.age(days=9)
    (of_side,) = {f"_lakefs/{item}" for item in ranges} & files
    return Dropped(world, dangling, expired, of_side)


@pytest.mark.parametrize("most", [0, 100])
def test_what_history_names_of_dropped_ranges_explains_and_the_rest_does_not(most: int) -> None:
    lake = with_dropped(most)
    made, counts = run(lake.world)
    assert made.plan.mode == "optimized"
    assert counts["dropped_ranges"] == 2
    assert not {lake.dangling, lake.expired} & lake.world.data()
    parts = SubtractOutput.of(summary_of(made, "subtract")).candidates
    rows = [row for part in parts for row in made.folder.read_part(part).to_pylist()]
    reasons = {row["address"]: row["reason"] for row in rows}
    assert reasons == {lake.expired: "expired", lake.dangling: "unreferenced"}


def test_a_dropped_range_that_cannot_be_read_counts_until_it_can() -> None:
    lake = with_dropped()
    world, key = lake.world, lake.key
    content = world.lake.objects.get(key)
    open_deleter(world.lake.namespace).delete([key])
    for _ in range(2):
        made, _ = run(world)
        assert "1 ranges" in str(summary_of(made, "list_committed").warnings)
        assert lake.dangling in world.data()
        assert lake.expired not in world.data()
        world.age(days=2)
    world.lake.objects.put(key, content)
    world.age(days=2)
    made, counts = run(world)
    assert (made.plan.mode, counts["dropped_ranges"]) == ("optimized", 1)
    assert lake.dangling not in world.data()
    world.assert_readable()


FACTS = RangeFacts(1, b"a", b"z")
FILES = {"m3": ["r1", "r3"], "m2": ["r2", "r3"], "m1": ["r2", "r4"], "m0": ["r5"]}
"""Ranges of metaranges; `r1` and, where it is said, others are active."""


def metaranges(names: Iterable[str]) -> Metaranges:
    found = Metaranges()
    for name in names:
        for item in FILES[name]:
            found.ranges[item] = FACTS
        place = {item: row for row, item in enumerate(found.ranges)}
        found.named[name] = np.array([place[item] for item in FILES[name]], np.int32)
    return found


class Store:
    def __init__(self, damaged: Iterable[str]) -> None:
        self.damaged = set(damaged)
        self.read: list[list[str]] = []

    def __call__(self, _reader: object, names: Iterable[str]) -> tuple[Metaranges, dict[str, DredgeError]]:
        self.read.append(list(names))
        errors: dict[str, DredgeError] = {name: FormatError("damaged") for name in self.damaged}
        return metaranges([name for name in self.read[-1] if name not in errors]), errors


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    def find(
        wanted: Iterable[str] = FILES,
        *,
        most: int = 100,
        known: Iterable[str] = (),
        active: Iterable[str] = ("r1",),
        damaged: Iterable[str] = (),
    ) -> tuple[Expired, Store]:
        store = Store(damaged)
        monkeypatch.setattr(step, "read_leniently", store)
        tuning = SimpleNamespace(explain_ranges_max=most)
        plan = SimpleNamespace(config=SimpleNamespace(tuning=tuning))
        run = cast("Run", SimpleNamespace(plan=plan, reader=None))
        now = datetime(2026, 3, 1, tzinfo=UTC)
        commits = [Commit(f"c{at}", (), now, name) for at, name in enumerate(wanted)]
        read = step.read_expired(run, commits, metaranges(known))
        return find_expired(commits, metaranges(known), set(active), read, most), store

    return find


def test_a_file_that_cannot_be_read_is_left_out_alone(found: Any) -> None:
    answer, store = found(damaged=["m2"])
    assert store.read == [list(FILES)]
    assert list(answer.ranges) == ["r3", "r2", "r4", "r5"]
    answer, _ = found(["m3", "m2"], damaged=["m2"])
    assert list(answer.ranges) == ["r3"]
