"""What is found waits: another run deletes it, a grace later, if it is still garbage."""

from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import DredgeError, FormatError, RefusedError
from dredge.gc import steps
from dredge.gc.pending import advance
from dredge.gc.planning import acquire_lease
from dredge.gc.run import Run
from dredge.gc.witness.people import forget_lost, take_over
from dredge.runs.pending import store
from dredge.runs.pending.rows import LIVE, WAITING
from dredge.runs.run import resume_run
from dredge.undo.deletions import read_deletions
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world, pending_rows, stage_again, summary_of
from tests.support.kept import keep
from tests.support.killing import Killed, failing_writes, killed_at
from tests.support.lost_database import back_up, restore
from tests.support.memory_store import memory_store
from tests.support.second_server import copy_of

ORPHAN = "data/slice/orphan"


def waiting(**settings: Any) -> World:
    """A lake with something committed and staged and one orphan, nine days old; runs wait 20 hours."""
    wanted = {"unsafe_grace_seconds": None, "grace_hours": 20, "mode": "auto", **settings}
    world = make_world(**wanted, rules=30)
    world.commit("a", b"committed")
    world.upload("b", b"staged")
    world.orphan(ORPHAN)
    world.age(days=9)
    return world


def counts(run: Run) -> dict[str, int]:
    return dict(summary_of(run, "check_limits").counts)


def test_the_first_run_finds_and_another_one_deletes_a_grace_later() -> None:
    world = waiting()
    first = world.collected()
    assert ORPHAN in world.data()
    assert counts(first)["waiting_objects"] == counts(first)["found_now_objects"] == 1
    assert (counts(first)["deletable_objects"], counts(first)["held_objects"]) == (0, 0)
    assert not read_deletions(first.state).found
    world.age(hours=19)
    second = world.collected()
    assert ORPHAN in world.data()
    assert (counts(second)["pending_objects"], counts(second)["found_now_objects"]) == (1, 0)
    world.age(hours=1)
    third = world.collected()
    assert ORPHAN not in world.data()
    assert counts(third)["deletable_objects"] == 1
    assert summary_of(third, "bulk_delete").counts["deleted_objects"] == 1
    (deletion,) = read_deletions(third.state).found
    assert deletion.hashes.rows == 1
    world.age(days=1)
    assert pending_rows(world.collected()) == {}
    world.assert_readable()


def test_where_nothing_can_be_taken_back_garbage_waits_three_days() -> None:
    world = waiting(grace_hours=None)
    assert world.collected().plan.undo.way == "off"
    world.age(hours=71)
    world.collected()
    assert ORPHAN in world.data()
    world.age(hours=1)
    world.collected()
    assert ORPHAN not in world.data()


def test_without_an_id_in_the_server_garbage_waits_three_days() -> None:
    world = waiting()
    run = world.plan()
    assert run.plan.config.grace("versions").total_seconds() == 20 * 3600
    assert run.plan.config.grace("versions", keeps_id=False).total_seconds() == 72 * 3600


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_a_dry_run_and_the_run_after_it_delete_what_both_have_seen(mode: str) -> None:
    world = waiting()
    world.collected(mode=mode, dry_run=True)
    late = world.orphan("data/slice/late")
    world.age(hours=26)
    dry = world.collected(mode=mode, dry_run=True)
    assert counts(dry)["deletable_objects"] == 1
    world.collected(mode=mode)
    assert ORPHAN not in world.data()
    assert late in world.data()


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_what_was_alive_between_waits_anew(mode: str) -> None:
    world = waiting()
    world.collected()
    stage_again(world, ORPHAN)
    world.age(hours=20)
    assert pending_rows(world.collected(mode=mode))[ORPHAN]["status"] == LIVE
    world.lake.catalog.branches.reset_branch("lake", "main")
    world.age(days=2)
    run = world.collected(mode=mode)
    assert ORPHAN in world.data()
    assert pending_rows(run)[ORPHAN]["run_id"] == run.plan.run_id
    world.age(hours=20)
    world.collected(mode=mode)
    assert ORPHAN not in world.data()


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_what_was_deleted_between_waits_anew(mode: str) -> None:
    """Somebody removed the marker of its deletion, so that it is there again with its old time."""
    world = waiting()
    bucket, _, _ = world.collected().state.uri.removeprefix("memory://").partition("/")
    objects = memory_store(bucket).objects
    (key,) = [key for key in objects if key.endswith(ORPHAN)]
    before = objects[key]
    world.age(hours=20)
    world.collected()
    assert ORPHAN not in world.data()
    objects[key] = before
    world.age(hours=20)
    run = world.collected(mode=mode)
    assert ORPHAN in world.data()
    assert pending_rows(run)[ORPHAN]["run_id"] == run.plan.run_id


def test_a_dry_run_that_takes_young_objects_for_old_begins_no_wait() -> None:
    world = waiting(mode="clean")
    world.orphan("data/slice/fresh")
    world.age(minutes=5)
    found = world.collected(dry_run=True, unsafe_min_age_seconds=0)
    assert pending_rows(found)["data/slice/fresh"]["status"] == WAITING
    world.age(hours=26)
    world.collected()
    assert ORPHAN not in world.data()
    assert "data/slice/fresh" in world.data()
    world.age(hours=20)
    world.collected()
    assert "data/slice/fresh" not in world.data()


def test_a_run_that_waits_for_an_answer_does_not_confirm_what_it_found() -> None:
    world = waiting(approval="always")
    run = world.marked()
    world.age(days=5)
    assert counts(run)["deletable_objects"] == 0
    rest = Run.open(run.plan.run_uri, None, world.client, world.lake.clock)
    with pytest.raises(DredgeError):
        world.run(rest)
    assert ORPHAN in world.data()


def test_a_refused_mark_leaves_no_row() -> None:
    """The database is restored from a backup of which the lost day is unknown."""
    world = waiting()
    world.collected()
    backup = back_up(world)
    address = world.commit("lost", b"lost")
    world.age(days=2)
    before = pending_rows(world.collected(dry_run=True))
    restore(world, backup)
    with pytest.raises(RefusedError):
        world.collected(dry_run=True)
    run = world.plan(dry_run=True)
    steps.release_lease(run)
    assert pending_rows(run) == before
    assert address not in before


def test_marks_of_another_server_and_what_ifs_leave_no_row() -> None:
    world = waiting()
    assert set(pending_rows(world.collected())) == {ORPHAN}
    world.lake.catalog.tags.create_tag("lake", "v1", "main")
    world.orphan("data/slice/new")
    world.age(days=2)
    what_if = world.collected(dry_run=True, keep_tags=False)
    assert counts(what_if)["found_now_objects"] == 1
    assert counts(what_if)["deletable_objects"] == 1
    copy = copy_of(world, url="http://rehearsal:8000")
    assert counts(copy.collected(dry_run=True))["deletable_objects"] == 1
    assert set(pending_rows(what_if)) == {ORPHAN}


@pytest.mark.parametrize("said", ["forget-lost", "own"])
def test_after_a_persons_word_everything_waits_anew(said: str) -> None:
    world = waiting()
    world.collected()
    world.age(hours=20)
    if said == "own":
        take_over("lake", "moved", client=world.client)
    else:
        forget_lost(world.client, "lake", "not wanted", 30)
    world.age(seconds=1)
    run = world.collected()
    assert run.plan.mode == "clean"
    assert ORPHAN in world.data()
    world.age(hours=20)
    world.collected()
    assert ORPHAN not in world.data()


def test_a_list_of_a_run_that_began_before_a_persons_word_counts_no_more() -> None:
    """Its task was killed and goes on after the word, with what it read before."""
    world = waiting()
    world.collected()
    world.age(hours=10)
    run = world.plan(dry_run=True, mode="clean")
    for step in (steps.slice_listing, steps.mark_uncommitted, steps.list_committed, steps.subtract):
        step(run, world.runner)
    world.age(hours=2)
    forget_lost(world.client, "lake", "not wanted", 30)
    world.age(minutes=5)
    assert resume_run(run, "lake", acquire_lease(run.plan.config, run.plan.lease.holder, world.client))
    run = Run.open(run.plan.run_uri, None, world.client, world.lake.clock)
    steps.check_limits(run, world.runner)
    steps.release_lease(run)
    world.age(hours=12)
    world.collected()
    assert ORPHAN in world.data()
    world.age(hours=20)
    world.collected()
    assert ORPHAN not in world.data()


def test_a_list_that_is_older_than_the_state_is_not_believed() -> None:
    """A later version of it was removed, so that the one before has its own time. The newest list's note is lost."""
    world = waiting()
    pointer = f"{world.collected().state.uri}/{store.POINTER}"
    bucket, _, key = pointer.removeprefix("memory://").partition("/")
    old = memory_store(bucket).objects[key]
    stage_again(world, ORPHAN)
    world.age(hours=10)
    assert pending_rows(world.collected())[ORPHAN]["status"] == LIVE
    world.lake.catalog.branches.reset_branch("lake", "main")
    memory_store(bucket).objects[key] = old
    del memory_store(bucket).objects[key.replace(store.POINTER, store.NEWEST)]
    world.age(hours=10)
    assert world.collected().plan.mode == "clean"
    assert ORPHAN in world.data()


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_a_list_of_before_a_dry_run_is_not_believed_though_no_state_came_since(mode: str) -> None:
    """A later version of it was removed, so that the one before has its own time."""
    world = waiting()
    world.collected()
    world.age(hours=1)
    pointer = f"{world.collected(dry_run=True).state.uri}/{store.POINTER}"
    bucket, _, key = pointer.removeprefix("memory://").partition("/")
    old = memory_store(bucket).objects[key]
    stage_again(world, ORPHAN)
    world.age(hours=10)
    assert pending_rows(world.collected(mode=mode, dry_run=True))[ORPHAN]["status"] == LIVE
    world.lake.catalog.branches.reset_branch("lake", "main")
    memory_store(bucket).objects[key] = old
    world.age(hours=10)
    assert world.collected().plan.mode == "clean"
    assert ORPHAN in world.data()


def spoil(world: World, run: Run, how: str) -> None:
    pointer = f"{run.state.uri}/{store.POINTER}"
    bucket, _, key = pointer.removeprefix("memory://").partition("/")
    held = memory_store(bucket)
    data = run.state.get(store.POINTER)
    match how:
        case "lost":
            del held.objects[key]
        case "damaged":
            run.state.put(store.POINTER, data[:-3])
        case "copied back":
            held.write(key, data, world.lake.clock())
        case "damaged part":
            for name in [name for name in held.objects if "/pending/" in name and name.endswith(".parquet")]:
                held.objects[name] = (held.objects[name][0][:-9], held.objects[name][1])


@pytest.mark.parametrize("how", ["lost", "damaged", "copied back", "damaged part"])
def test_a_list_that_may_not_be_believed_makes_all_wait_anew_in_a_clean_run(how: str) -> None:
    world = waiting()
    run = world.collected()
    world.age(hours=20)
    spoil(world, run, how)
    second = world.collected()
    assert (second.plan.mode, ORPHAN in world.data()) == ("clean", True)
    world.age(hours=20)
    third = world.collected()
    assert (third.plan.mode, ORPHAN in world.data()) == ("optimized", False)


@pytest.mark.parametrize("shard_rows", [3, 1], ids=["as many shards", "another number of shards"])
def test_where_a_part_of_a_long_list_is_damaged_the_next_run_is_clean_and_its_rows_wait_anew(
    monkeypatch: pytest.MonkeyPatch, shard_rows: int
) -> None:
    """So long that planning compares only the lengths of its parts."""
    monkeypatch.setattr("dredge.runs.versions._VERIFY_BYTES_MAX", 1)
    cut_finely(monkeypatch)
    world = waiting()
    for number in range(12):
        world.orphan(f"data/slice{number}/x")
    world.age(days=2)
    run = world.collected()
    key = min(parts(run))
    data = run.state.get(key)
    run.state.put(key, data[:40] + bytes([data[40] ^ 255]) + data[41:])
    cut_finely(monkeypatch, shard_rows)
    for number in range(40):
        world.orphan(f"data/slice{number % 5}/{number}")
    world.age(hours=30)
    damaged = world.plan()
    with pytest.raises(FormatError):
        world.run(damaged)
    steps.release_lease(damaged)
    again = world.collected()
    assert (damaged.plan.mode, again.plan.mode) == ("optimized", "clean")
    waits = {address for address, row in pending_rows(again).items() if row["run_id"] == again.plan.run_id}
    assert {"data/slice0/0", "data/slice1/1"} <= waits
    assert len(waits) > 40
    for _ in range(2):
        world.age(days=1)
        world.collected()
    assert not [key for key in world.data() if key.startswith("data/slice")]


def test_an_optimized_run_stops_at_a_damaged_part_of_the_list() -> None:
    """It was whole when subtract read it."""
    world = waiting()
    world.collected()
    run = world.plan(mode="optimized")
    for step in (steps.slice_listing, steps.mark_uncommitted, steps.list_committed, steps.subtract):
        step(run, world.runner)
    before = run.state.get(store.POINTER)
    spoil(world, run, "damaged part")
    with pytest.raises(FormatError):
        steps.check_limits(run, world.runner)
    assert run.state.get(store.POINTER) == before


def test_an_optimized_run_whose_list_went_meanwhile_is_refused() -> None:
    world = waiting()
    world.collected()
    run = world.plan(mode="optimized")
    spoil(world, run, "lost")
    with pytest.raises(RefusedError):
        world.run(run)


@pytest.mark.parametrize("goes_on", [True, False], ids=["the same run", "the next run"])
def test_after_a_kill_at_any_write_around_the_list_nothing_is_confirmed_early_and_all_goes_on(
    goes_on: bool,
) -> None:
    number = 0
    built = waiting()
    since = pending_rows(built.collected())[ORPHAN]["since"]
    late = built.orphan("data/slice/late")
    built.age(days=2)
    planned = built.plan()
    for step in (steps.slice_listing, steps.mark_uncommitted, steps.list_committed, steps.subtract):
        step(planned, built.runner)
    as_it_was = keep(built)
    while True:
        number += 1
        world = as_it_was()
        run = Run.open(planned.plan.run_uri, None, world.client, world.lake.clock)
        try:
            with killed_at(number):
                steps.check_limits(run, world.runner)
            break
        except Killed:
            world.age(minutes=1)
        if not goes_on:
            steps.release_lease(run)
            run = world.plan()
        world.mark(run)
        found = pending_rows(run)
        assert (found[ORPHAN]["since"], counts(run)["deletable_objects"]) == (since, 1)
        assert found[late]["since"] >= since + timedelta(days=2)
        steps.release_lease(run)
    assert number > 8
    steps.release_lease(run)


def test_a_later_try_of_the_guards_builds_on_the_list_that_the_run_has_read() -> None:
    """Not on the one that the earlier try has left."""
    world = waiting()
    first = pending_rows(world.collected())
    world.orphan("data/slice/late")
    world.age(days=2)
    run = world.plan()
    with failing_writes("/guard.json", Killed()), pytest.raises(Killed):
        world.mark(run)
    left = pending_rows(run)
    world.age(days=2)
    steps.check_limits(run, world.runner)
    again = pending_rows(run)
    assert counts(run)["deletable_objects"] == 1
    assert left[ORPHAN] == again[ORPHAN] == first[ORPHAN]
    assert again["data/slice/late"]["since"] > left["data/slice/late"]["since"]
    steps.release_lease(run)


def cut_finely(monkeypatch: pytest.MonkeyPatch, shard_rows: int = 3) -> None:
    monkeypatch.setattr(advance, "ONE_TASK_ROWS", 4)
    monkeypatch.setattr(advance, "SHARD_ROWS", shard_rows)


def test_a_part_that_did_not_change_is_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch)
    world = waiting(grace_hours=20_000)
    opened = [world.lake.clock() - timedelta(days=20, hours=hour) for hour in range(12)]
    slices = [
        new_descending_xid(at)[:8] + f"{number:011x}0" for number, at in enumerate(opened)
    ]  # fixed shards
    names = [world.orphan(f"data/{name}/x") for name in slices]
    world.age(days=2)
    before = parts(world.collected())
    world.orphan("data/slice0/late")
    world.age(days=2)
    late = world.collected(mode="optimized")
    after = parts(late)
    assert summary_of(late, "subtract").counts["earlier_objects"] == 0, "what is not due is not looked for"
    assert len(before) > 2
    assert len(before & after) >= len(before) - 1
    assert after - before
    stage_again(world, names[5])
    world.age(days=2)
    found = world.collected(mode="optimized")
    assert pending_rows(found)[names[5]]["status"] == LIVE
    assert counts(late)["pending_objects"] == counts(found)["pending_objects"] + 1 == 14
    assert len(parts(found) & after) == len(after) - 1


def parts(run: Run) -> set[str]:
    return store.read_named_parts(run.state)
