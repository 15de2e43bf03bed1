"""Range files that no active commit names: without rules all of them count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dredge.gc.index.ranges import RangeFacts
from dredge.gc.list_committed import step
from dredge.gc.list_committed.read_ranges import Roles
from dredge.gc.run import Run
from dredge.gc.state import RunState, StateStore
from dredge.gc.subtract import SubtractOutput
from dredge.storage import open_deleter
from tests.support.gc import World, make_world, summary_of


def run(world: World, **settings: Any) -> tuple[Run, dict[str, int]]:
    """A whole run, and the figures of this step."""
    made = world.plan(**settings)
    world.run(made)
    return made, dict(summary_of(made, "list_committed").counts)


def state_after(made: Run) -> RunState:
    state = StateStore(made.state).current("lake", made.plan.namespace).state
    assert state is not None
    assert state.run_id == made.plan.run_id
    return state


def test_without_rules_every_range_file_counts_in_each_run_and_is_looked_at_once() -> None:
    world = make_world(mode="auto")
    world.upload("a", b"1")
    world.lake.commit("first")
    catalog = world.lake.catalog
    catalog.branches.create_branch("lake", "side", "main")
    address = world.upload("b", b"dangling", "side")
    world.age(days=9)
    world.lake.commit("side", "side")
    catalog.branches.delete_branch("lake", "side")
    world.age(days=2)
    made, counts = run(world)
    assert counts["range_files_looked_at"] > 0
    looked_at = made.folder.read_part(state_after(made).looked_at)["name"].to_pylist()
    assert looked_at
    ranges = made.folder.read_part(state_after(made).ranges)["range_id"].to_pylist()
    assert len(ranges) == 2
    assert not {*ranges} & {*looked_at}, "else they would count no more once no commit names them"
    for _ in range(2):
        world.age(days=2)
        orphan = world.orphan("data/other/orphan")
        world.age(days=2)
        made, counts = run(world)
        assert made.plan.mode == "optimized"
        assert counts["range_files_looked_at"] == 0
        assert orphan not in world.data()
        assert address in world.data()


def test_the_first_run_without_rules_looks_itself_at_what_only_the_rules_made_active() -> None:
    """What the run before found active was not all: whatever it did not need is looked at as well."""
    world = make_world(mode="auto")
    world.rules(30)
    world.upload("a", b"1")
    world.lake.commit("first")
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


FACTS = RangeFacts(1, b"a", b"z")


def test_counted_afresh_everything_active_is_new_and_what_history_names_still_explains() -> None:
    now = {"kept": FACTS, "new": FACTS}
    roles = Roles.since({"kept": FACTS, "gone": FACTS, "expired": FACTS}, now)
    roles.expired = {"older": FACTS}
    roles.dropped_expired = {"expired"}
    found = step._afresh(roles, now)
    assert found == Roles(now, {"older": FACTS, "expired": FACTS})


def test_counted_afresh_what_history_named_long_ago_is_no_dropped_range() -> None:
    world = make_world(mode="auto", tuning={"explain_ranges_max": 100, "counted_layers_max": 1})
    world.rules(5)
    world.upload("a", b"1")
    world.upload("b", b"expired")
    world.lake.commit("first")
    world.age(days=2)
    world.lake.catalog.objects.delete_object("lake", "main", "b")
    world.lake.commit("second")
    world.age(days=9)
    world.upload("tick", b"tick")
    world.lake.commit("third")
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
    """A lake in which two ranges are active no more since a run: of a branch that is gone, and of an expired commit.

    Attributes:
        world: the lake.
        dangling, expired: addresses that only the one names, and the other.
        key: of the branch's.
    """

    world: World
    dangling: str
    expired: str
    key: str


def with_dropped(explain_ranges_max: int = 100) -> Dropped:
    world = make_world(mode="auto", tuning={"explain_ranges_max": explain_ranges_max})
    world.rules(5)
    catalog = world.lake.catalog
    world.upload("a", b"1")
    world.lake.commit("first")
    catalog.branches.create_branch("lake", "side", "main")
    dangling = world.upload("b", b"dangling", "side")
    files = set(world.lake.keys("_lakefs/"))
    world.lake.commit("side", "side")
    files = set(world.lake.keys("_lakefs/")) - files
    expired = world.upload("c", b"expired")
    world.lake.commit("second")
    catalog.objects.delete_object("lake", "main", "c")
    world.age(days=2)
    world.lake.commit("third")
    made, _ = run(world)
    ranges = made.folder.read_part(state_after(made).ranges)["range_id"].to_pylist()
    catalog.branches.delete_branch("lake", "side")
    world.age(days=9)
    world.upload("tick", b"tick")
    world.lake.commit("fourth")
    world.age(days=9)
    (of_side,) = {f"_lakefs/{item}" for item in ranges} & files
    return Dropped(world, dangling, expired, of_side)


@pytest.mark.parametrize("most", [0, 100])
def test_what_history_names_of_dropped_ranges_explains_and_the_rest_does_not(most: int) -> None:
    """An object of a commit that nothing leads to any more is garbage whose history is gone. Metaranges that an earlier
    run read need not be read to know it."""
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
