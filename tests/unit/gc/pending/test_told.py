"""What reports, lists of runs and pages tell of what waits, and what becomes of the files of earlier lists."""

from __future__ import annotations

from datetime import timedelta

from dredge.commands.runs import rows_of_runs
from dredge.gc.run import RUNS, STATE, Run
from dredge.gc.save_report.clean_up import find_superseded
from dredge.gc.save_report.own_files import OWN
from dredge.gc.save_report.report import read_report
from dredge.runs.pending.store import parts_named
from tests.support.gc import World, make_world, pending_rows

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


def test_a_report_says_what_was_found_what_waits_and_until_when() -> None:
    world = waiting()
    first = go(world)
    report = read_report(first.plan.run_uri)
    since = pending_rows(first)[ORPHAN]["since"]
    ends = (since + timedelta(hours=20)).isoformat()
    assert report["pending"]["waiting"] == report["pending"]["found_now"] == {"objects": 1, "bytes": 6}
    assert (report["pending"]["first_deletion"], report["pending"]["last_deletion"]) == (ends, ends)
    assert (report["counts"]["pending_objects"], report["counts"]["pending_bytes"]) == (1, 6)
    assert report["counts"]["deleted_objects"] == 0
    assert {"Found now", "Waiting", "Confirmed"} <= dict(report["facts"]).keys()
    assert f"{since + timedelta(hours=20):%Y-%m-%d %H:%M}" in report["headline"]
    assert [row["code"] for row in report["held"]] == ["waiting"]
    world.age(hours=20)
    report = read_report(go(world).plan.run_uri)
    assert report["pending"]["confirmed"] == {"objects": 1, "bytes": 6}
    assert report["pending"]["waiting"] == {"objects": 0, "bytes": 0}
    assert (report["pending"]["first_deletion"], report["counts"]["deleted_objects"]) == (None, 1)


def test_a_list_of_runs_has_the_bytes_that_wait() -> None:
    world = waiting()
    go(world)
    world.age(hours=20)
    go(world)
    rows = rows_of_runs(
        world.lake.namespace, RUNS, 0, read_report, lambda found: found["counts"]["deleted_objects"]
    )
    assert [(row["deleted_objects"], row["pending_objects"], row["pending_bytes"]) for row in rows] == [
        (1, 0, 0),
        (0, 1, 6),
    ]


def test_parts_of_earlier_lists_are_removed_a_week_later_and_those_of_the_list_are_not() -> None:
    world = waiting()
    old = parts_named(go(world).state)
    world.orphan("data/slice/another")
    world.age(days=2)
    newer = parts_named(go(world).state)
    assert old
    assert old.isdisjoint(newer)
    assert old | newer <= parts_there(world), "a run that waits may still read them"
    world.age(days=9)
    run = world.plan(dry_run=True)
    world.run(run)
    found = find_superseded(run).bookkeeping
    assert {f"{OWN}/{key}" for key in old} <= set(found)
    assert parts_named(run.state).isdisjoint(key.removeprefix(f"{OWN}/") for key in found)
    world.age(seconds=1)
    assert parts_named(go(world).state) <= parts_there(world)
    assert old.isdisjoint(parts_there(world))


def parts_there(world: World) -> set[str]:
    return {key.removeprefix(f"{STATE}/") for key in world.lake.keys(f"{STATE}/pending/")}
