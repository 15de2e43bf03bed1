"""What a run counts, and where: on top of the run before, for a later one, or for its own figures alone."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.list_committed.output import COUNTED
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing
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


def test_a_clean_run_needs_no_counts_to_know_what_lives() -> None:
    world = grown()
    run, found = whole(world, mode="clean")
    assert found.live.counted is None
    assert len(found.sizes) == 1
    assert candidates(run) == {"data/slice/orphan"}


def test_the_digests_of_all_sets_are_in_the_summary() -> None:
    """Else a file that was damaged since would count as it is."""
    world = make_world(policy=policy("name: logs, last: 3, paths: ['logs/*']"))
    world.rules(1)
    history(world, 5, path="logs/a")
    world.lake.catalog.tags.create_tag(
        "lake", "v1", [item.id for item in world.client.log("lake", "main")][-2]
    )
    run, found = whole(world)
    ours = {part.name for part in summary_of(run, "list_committed").parts}
    assert len(found.live.sets) == 2, "with what the rule about paths keeps"
    sets = {
        part.name for located in (*found.live.sets, *found.sizes) for part in located.hashes.shards.values()
    }
    assert sets
    assert sets <= ours
    assert found.path_ranges.rows == 2
    assert found.path_commits.rows == 3, "the head is among them"
    path_ranges = run.folder.read_part(found.path_ranges)["range_id"].to_pylist()
    assert not {*path_ranges} & {*run.folder.read_part(found.ranges)["range_id"].to_pylist()}


def counts_of(world: World, run: Run) -> tuple[list[str], list[str]]:
    """Files of counts in the run's own folder, without those of single tasks, and beside the index."""
    prefix = f"{run.plan.run_uri.removeprefix(world.lake.namespace + '/')}/"
    own = [key for key in world.lake.keys(prefix) if "/counts-" in key]
    state = run.state.uri.removeprefix(world.lake.namespace + "/")
    return own, world.lake.keys(f"{state}/{COUNTED}/")


@pytest.mark.parametrize("rules", [("last: 1",), ("last: 3", "last: 1")])
@pytest.mark.parametrize("dry_run", [True, False])
def test_counts_lie_where_somebody_needs_them(dry_run: bool, rules: tuple[str, ...]) -> None:
    """A dry run needs them for its figures alone, and only where a rule keeps something."""
    world = make_world(mode="auto", policy=policy(*rules))
    world.rules(1)
    history(world, 5)
    run, found = whole(world, dry_run=dry_run)
    own, beside = counts_of(world, run)
    assert bool(own) == (dry_run and len(rules) == 2)
    assert bool(beside) is not dry_run
    assert [item["objects"] for item in found.kept if item["name"].startswith("policy")] == [2, 0][
        -len(rules) :
    ]


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


def test_every_head_that_was_seen_is_noted_with_its_content() -> None:
    world = make_world()
    world.rules(1)
    world.upload("a", b"1")
    first = world.lake.commit("first").id
    world.age(days=2)

    run = world.plan()
    slice_listing(run, world.runner)
    mark_uncommitted(run, world.runner)
    world.lake.commit("meanwhile", allow_empty=True)
    found = ListCommittedOutput.of(list_committed(run, world.runner))
    rows = run.folder.read_part(found.branches).to_pylist()
    assert {row["branch"] for row in rows} == {"main"}
    assert first in {row["commit_id"] for row in rows}
    assert len({row["commit_id"] for row in rows}) == 2
    assert len({row["metarange_id"] for row in rows}) == 1


def test_commits_and_refs_are_noted_for_who_asks_afterwards() -> None:
    world = make_world()
    world.rules(1)
    addresses = history(world, 3)
    ids = [item.id for item in world.client.log("lake", "main")]
    world.lake.catalog.tags.create_tag("lake", "v1", ids[1])
    run, found = whole(world, keep_tags=False)
    commits = run.folder.read_part(found.commits).to_pylist()
    assert {row["commit_id"]: row["head"] for row in commits} == {ids[0]: True}
    refs = run.folder.read_part(found.refs).to_pylist()
    assert [(row["kind"], row["name"], row["commit_id"]) for row in refs] == [
        ("branch", "main", ids[0]),
        ("tag", "v1", ids[1]),
    ]
    rows = run.folder.read_part(found.history)
    assert rows.schema.field("created_at").type.tz == "UTC"
    assert {row["commit_id"]: row["created_at"] for row in rows.to_pylist()} == {
        item.id: item.created_at for item in world.client.log("lake", "main")
    }
    assert len(addresses) == len(ids) - 1
