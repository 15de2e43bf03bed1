"""What reports, lists of runs and pages tell of what waits, and what becomes of the files of earlier lists."""

from __future__ import annotations

from dredge.commands.printing import list_runs
from dredge.gc.run import RUNS, STATE, Run
from dredge.gc.save_report.clean_up import find_superseded
from dredge.gc.save_report.own_files import OWN
from dredge.gc.save_report.report import read_report
from dredge.runs.pending.store import read_named_parts
from tests.support.gc import World, make_world

ORPHAN = "data/slice/orphan"


def waiting() -> World:
    world = make_world(unsafe_grace_seconds=None, grace_hours=20, mode="auto")
    world.rules(30)
    world.upload("a", b"committed")
    world.lake.commit()
    world.orphan(ORPHAN)
    world.age(days=9)
    return world


def go(world: World) -> Run:
    run = world.plan()
    world.run(run)
    return run


def test_a_list_of_runs_has_the_bytes_that_wait() -> None:
    world = waiting()
    go(world)
    world.age(hours=20)
    go(world)
    rows = list_runs(
        world.lake.namespace, RUNS, 0, read_report, lambda found: found["counts"]["deleted_objects"]
    )
    assert [(row["deleted_objects"], row["pending_objects"], row["pending_bytes"]) for row in rows] == [
        (1, 0, 0),
        (0, 1, 6),
    ]


def test_parts_of_earlier_lists_are_removed_a_week_later_and_those_of_the_list_are_not() -> None:
    world = waiting()
    old = read_named_parts(go(world).state)
    world.orphan("data/slice/another")
    world.age(days=2)
    newer = read_named_parts(go(world).state)
    assert old
    assert old.isdisjoint(newer)
    assert old | newer <= parts_there(world), "a run that waits may still read them"
    world.age(days=9)
    run = world.plan(dry_run=True)
    world.run(run)
    found = find_superseded(run).bookkeeping
    assert {f"{OWN}/{key}" for key in old} <= set(found)
    assert read_named_parts(run.state).isdisjoint(key.removeprefix(f"{OWN}/") for key in found)
    world.age(seconds=1)
    assert read_named_parts(go(world).state) <= parts_there(world)
    assert old.isdisjoint(parts_there(world))


def parts_there(world: World) -> set[str]:
    return {key.removeprefix(f"{STATE}/") for key in world.lake.keys(f"{STATE}/pending/")}
