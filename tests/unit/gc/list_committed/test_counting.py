"""What a run counts, and where: on top of the run before, for a later one, or for its own figures alone."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.list_committed.tables import COUNTED
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from tests.support.gc import World, make_world, summary_of
from tests.support.policies import history, policy


def whole(world: World, **settings: Any) -> tuple[Run, ListCommittedOutput]:
    """A whole run, and what this step left."""
    run = world.plan(**settings)
    world.run(run)
    return run, ListCommittedOutput.of(summary_of(run, "list_committed"))


def candidates(run: Run) -> set[str]:
    parts = SubtractOutput.of(summary_of(run, "subtract")).candidates
    return {key for part in parts for key in run.folder.read_part(part)["address"].to_pylist()}


def grown() -> World:
    """A lake after a clean run, with more commits and garbage since."""
    world = make_world(mode="auto", tuning={"shard_values": 1})
    world.rules(300)
    history(world, 3)
    world.age(days=9)
    whole(world)
    history(world, 2, path="b")
    world.orphan("data/slice/orphan")
    world.age(days=9)
    return world


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_run_counts_in_the_shards_of_the_run_before_and_takes_nothing_live_for_garbage(
    dry_run: bool,
) -> None:
    world = grown()
    before = world.data()
    run, found = whole(world, tuning={"shard_values": 1 << 20}, dry_run=dry_run)
    assert run.plan.mode == "optimized"
    assert found.counted.bits == found.live.sets[0].hashes.bits > 0
    assert found.live.counted == found.counted
    assert len(found.sizes) == 2
    assert candidates(run) == {"data/slice/orphan"}
    assert world.data() == (before if dry_run else before - {"data/slice/orphan"})
    world.assert_readable()
    if not dry_run:
        world.age(days=2)
        whole(world)
        world.assert_readable()


def counts_of(world: World, run: Run) -> tuple[list[str], list[str]]:
    """Files of counts in the run's own folder, without those of single tasks, and beside the index."""
    prefix = f"{run.plan.run_uri.removeprefix(world.lake.namespace + '/')}/"
    own = [key for key in world.lake.keys(prefix) if "/counts-" in key]
    state = run.state.uri.removeprefix(world.lake.namespace + "/")
    return own, world.lake.keys(f"{state}/{COUNTED}/")


def test_no_rule_keeps_what_the_servers_answer_has_as_well() -> None:
    world = make_world(policy=policy("last: 2"))
    world.rules(1)
    world.upload("a", b"1")
    world.lake.commit("first")
    world.age(days=5)
    world.lake.commit("the same content", allow_empty=True)
    world.age(days=5)
    run, found = whole(world, dry_run=True)
    assert counts_of(world, run) == ([], [])
    assert [item["objects"] for item in found.kept if item["name"].startswith("policy")] == [0]
