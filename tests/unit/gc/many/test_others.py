"""Whether another collector works on a repository: by what collectors leave, and by our lease."""

import pytest

from dredge.errors import FormatError
from dredge.gc.many import other_collector
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world

UNIFIED = "_lakefs/retention/gc/unified"
LEASE = "_lakefs/retention/gc/dredge/lease.json"


def worked_on() -> World:
    """A lake that this collector has collected, and time for others after it."""
    world = make_world()
    world.commit("a", b"1")
    world.rules()
    world.collect_after(days=2)
    return world


def foreign(world: World, name: str = "{}/{}/summary.json") -> str:
    run_id = new_descending_xid(world.lake.clock())
    world.lake.objects.put(name.format(UNIFIED, run_id), b"{}")
    return run_id


def asked(world: World) -> str:
    return other_collector(world.lake.objects)


def test_a_repository_that_nobody_collected_is_free() -> None:
    assert asked(make_world()) == ""


def test_our_own_runs_and_what_they_had_prepared_are_not_another_collector() -> None:
    world = worked_on()
    assert world.lake.objects.list_level("_lakefs/retention/gc/uncommitted/").folders
    assert world.lake.objects.list_level("_lakefs/retention/gc/commits/").folders
    assert asked(world) == ""


def test_a_run_without_a_plan_that_is_newer_than_ours_is_another_collectors() -> None:
    world = worked_on()
    world.age(hours=1)
    run_id = foreign(world)
    assert f"its run {run_id} wrote files at 2026-01-04 04:04 UTC" in asked(world)
    assert "2026-01-04 03:04" in asked(world)


def test_a_run_of_another_collector_that_began_before_ours_and_ended_later_is_noticed() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.age(days=2)
    run_id = new_descending_xid(world.lake.clock())
    world.collect_after(hours=1)
    world.age(hours=1)
    world.lake.objects.put(f"{UNIFIED}/{run_id}/summary.json", b"{}")
    assert f"its run {run_id}" in asked(world)


def test_a_run_of_another_collector_before_ours_is_history() -> None:
    world = make_world()
    foreign(world)
    world.upload("a", b"1")
    world.collect_after(days=2)
    assert asked(world) == ""


def test_a_collector_that_has_not_ended_is_seen_by_what_it_had_prepared() -> None:
    for place in ("uncommitted/{1}/uncommitted/page", "commits/run_id={1}/commits.csv"):
        world = worked_on()
        world.age(hours=1)
        run_id = foreign(world, f"_lakefs/retention/gc/{place}")
        assert f"its run {run_id}" in asked(world), place


def test_without_any_work_of_ours_every_trace_is_another_collectors() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.client.prepare_uncommitted("lake", None)
    assert asked(world) != ""


def test_what_is_prepared_while_our_lease_is_held_may_be_ours() -> None:
    world = worked_on()
    world.age(hours=1)
    world.plan()  # takes the lease for an hour
    world.age(minutes=50)
    foreign(world, "_lakefs/retention/gc/uncommitted/{1}/uncommitted/page")
    assert asked(world) == ""
    world.age(minutes=30)
    foreign(world, "_lakefs/retention/gc/uncommitted/{1}/uncommitted/page")
    assert asked(world) != ""


def test_clocks_of_servers_that_name_runs_may_be_ahead_of_the_stores() -> None:
    world = worked_on()
    world.age(minutes=4)
    foreign(world, "_lakefs/retention/gc/uncommitted/{1}/uncommitted/page")
    assert asked(world) == ""


def test_a_damaged_lease_is_an_error_and_no_answer() -> None:
    world = worked_on()
    world.lake.objects.put(LEASE, b"{}")
    with pytest.raises(FormatError):
        asked(world)
