"""What objects cost: each object is counted once, by the strongest thing that keeps it."""

import pytest

from dredge.gc.insight.base_run import BaseRun, open_base
from dredge.gc.insight.cost import cost_lines, cost_of
from dredge.runs.payload import to_json
from tests.support.gc import World, make_world
from tests.support.policies import policy as policy_of

SMALL = {"part_rows": 2, "candidate_rows": 3, "shard_values": 8}


def base_of(world: World, **settings: object) -> BaseRun:
    context = world.collected(dry_run=True, **settings)
    return open_base(context.plan.run_uri)


def size(number: int) -> bytes:
    """Content whose length tells objects apart in sums of bytes."""
    return b"x" * (1 << number)


@pytest.fixture
def world() -> World:
    """One object of each kind, of 1, 2, 4, 8 … bytes."""
    world = make_world(tuning=SMALL)
    world.rules(5, side=60)
    world.upload("logs/tagged", size(0))
    world.lake.catalog.tags.create_tag(world.lake.repository, "v1", world.lake.commit().id)
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "logs/tagged")
    world.commit("logs/old", size(1))
    world.age(days=100)
    world.upload("logs/head", size(2))
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "logs/old")
    world.lake.commit()
    world.age(days=10)
    world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
    world.commit("side/own", size(3), "side")
    world.lake.catalog.objects.delete_object(world.lake.repository, "side", "side/own")
    world.commit("side/other", size(4), "side")
    world.upload("staged", size(5))
    world.orphan("data/orphan", size(6))
    world.age(days=2)
    world.upload("young", size(7))
    return world


def table(rows: list[dict[str, object]], name: str) -> dict[object, object]:
    return {row[name]: row["size_bytes"] for row in rows}


def test_objects_are_counted_by_branch_and_by_age(world: World) -> None:
    found = cost_of(base_of(world)).tables()
    assert table(found["branches"], "branch") == {"side": 2 + 8 + 16}
    assert table(found["ages"], "age") == {"under 7 days": 8, "90 to 180 days": 1 + 2}
    assert "NOT IN A HEAD, BY AGE" in "\n".join(cost_lines(found))


def test_what_a_policy_keeps_is_told_apart(world: World) -> None:
    whole = policy_of("branches: main, last: all")
    found = cost_of(base_of(world, policy=to_json(whole), keep_tags=False)).tables()
    assert table(found["kinds"], "kind")["policy"] == 1
    paths = policy_of("branches: main, paths: logs/t*")
    found = cost_of(base_of(world, policy=to_json(paths), keep_tags=False)).tables()
    assert table(found["kinds"], "kind")["policy"] == 1


def test_garbage_that_the_run_deleted_is_not_there_any_more(world: World) -> None:
    context = world.collected()
    kinds = table(cost_of(open_base(context.plan.run_uri)).tables()["kinds"], "kind")
    assert (kinds.get("garbage"), kinds["deleted"]) == (None, 64)
