"""A check that is killed, and records that are damaged: nothing that lives is forgotten, and nothing is passed over."""

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from dredge.errors import AlarmError, UnavailableError
from dredge.gc.check_limits import step as limits
from dredge.gc.steps import (
    approve,
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    resume,
    slice_listing,
    subtract,
)
from dredge.runs.run import release_lease
from dredge.storage import DeleteOutcome, open_deleter
from dredge.storage.deleting import CONNECTION_LOST
from dredge.storage.model import MaySend
from dredge.undo.alarms import open_alarms, read_alarms
from dredge.undo.deletions import read_deletions
from tests.support import lost_database
from tests.support.gc import World, deleting, make_world, stage_again, summary_of
from tests.support.memory_store import MemoryDeleter
from tests.support.stand_ins import standing_in
from tests.support.undo import WAYS, Moment, moments_in, store_of
from tests.support.wrong_runs import REUSES, expired_world, say_acknowledged, state_of, undo_store, wrong_run


def _killed_checks(world: World) -> list[Moment]:
    """What the store holds right before each write of a check, and after the last one."""
    run = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(run, world.runner)
    with moments_in(store_of(world), limits, "check_again") as found, contextlib.suppress(AlarmError):
        check_limits(run, world.runner)
    return found


def _put_back(world: World, moment: Moment, database: lost_database.Backup) -> None:
    moment.put_back(store_of(world))
    lost_database.restore(world, database)
    world.age(hours=3)


def test_after_a_kill_at_each_write_the_alarm_is_raised_and_the_objects_are_back() -> None:
    world, lost = wrong_run(objects=2)
    found = _killed_checks(world)
    assert len(found) > 5
    database = lost_database.back_up(world)
    for moment in found:
        _put_back(world, moment, database)
        with pytest.raises(AlarmError):
            world.collect()
        assert lost <= world.data()
        say_acknowledged(world)
        assert world.collect().details["outcome"] == "success"
        assert lost <= world.data()


def test_after_a_kill_at_each_write_what_is_used_again_is_back_without_an_alarm() -> None:
    world, commit, gone = expired_world()
    REUSES["branch"](world, commit)
    found = _killed_checks(world)
    database = lost_database.back_up(world)
    for moment in found:
        _put_back(world, moment, database)
        assert world.collect().details["outcome"] == "success"
        assert gone <= world.data()
        assert not read_alarms(state_of(world))


def test_a_sweep_that_was_killed_is_compared_as_well() -> None:
    world = make_world(undo="quarantine", tuning={"delete_keys": 1})
    world.commit("a", b"a")
    orphans = {world.orphan(f"data/s/{number}") for number in range(4)}
    world.age(days=2)
    run = world.plan()

    def killed(number: int, _keys: object) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with deleting(before=killed), pytest.raises(KeyboardInterrupt):
        world.run(run)
    deleted = orphans - world.data()
    assert len(deleted) == 2
    (record,) = read_deletions(run.state).found
    assert (record.run_id, record.hashes.rows) == (run.plan.run_id, 4)
    for number, address in enumerate(sorted(deleted)):
        world.lake.catalog.objects.stage_object(
            world.lake.repository,
            "main",
            f"again/{number}",
            physical_address=f"{world.lake.namespace}/{address}",
            checksum="c",
            size_bytes=6,
        )
    world.age(hours=3)
    with pytest.raises(AlarmError):
        world.collect()
    assert deleted <= world.data()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", ["killed", "lost"])
def test_an_object_that_the_killed_try_deleted_is_not_kept_by_the_next_one(way: str, answer: str) -> None:
    """It is live by then: as a kept one, it would be missing for ever."""
    world = undo_store(way, tuning={"delete_keys": 1})
    world.commit("a", b"a")
    orphans = {world.orphan(f"data/s/{number}") for number in range(3)}
    world.age(days=2)
    run = world.marked()
    gone: list[str] = []

    def delete(honest: Any, deleter: MemoryDeleter, keys: Sequence[str], may_send: MaySend) -> Any:
        outcomes = honest(deleter, keys, may_send)
        gone.extend(key for key in keys if key in orphans)
        if gone and answer == "killed":
            raise KeyboardInterrupt
        return [DeleteOutcome(key, "failed", CONNECTION_LOST) for key in keys] if gone else outcomes

    with standing_in(MemoryDeleter.delete, delete), pytest.raises((KeyboardInterrupt, UnavailableError)):
        bulk_delete(run, world.runner)
    lost = set(gone) - world.data()
    assert lost
    for number, address in enumerate(sorted(lost)):
        stage_again(world, address, f"again/{number}")
    counts = bulk_delete(run, world.runner).counts
    assert (counts["missing_objects"], counts["kept_objects"]) == (len(lost), 0)
    release_lease(run)
    world.age(hours=3)
    with pytest.raises(AlarmError):
        world.collect()
    assert lost <= world.data()


@pytest.mark.parametrize("damage", ["record", "hashes", "ledger"])
def test_a_deletion_that_cannot_be_read_is_named(damage: str) -> None:
    world, lost = wrong_run()
    state = state_of(world)
    (deletion,) = read_deletions(state).found
    if damage == "record":
        state.put(f"deletions/{deletion.run_id}.json", b"{}")
    elif damage == "hashes":
        open_deleter(state.uri).delete([deletion.hashes.key])
    else:
        open_deleter(deletion.run_uri).delete(["subtract/_SUCCESS.json"])
    run = world.plan(dry_run=True)
    if damage == "ledger":
        with pytest.raises(AlarmError):
            world.run(run)
        (alarm,) = open_alarms(state)
        assert (alarm.objects, set(alarm.outcomes)) == (len(lost), {"failed"})
        return
    world.run(run)
    summary = summary_of(run, "check_limits")
    assert summary.counts["unread_deletions"] == 1
    assert any(deletion.run_id in text for text in summary.warnings)
    release_lease(run)


def test_a_damaged_record_of_the_last_check_has_everything_compared_again() -> None:
    world, _ = wrong_run()
    with pytest.raises(AlarmError):
        world.collect()
    say_acknowledged(world)
    state_of(world).put("checked.json", b"{}")
    run = world.collected()
    summary = summary_of(run, "check_limits")
    assert summary.counts["exist_again_objects"] == 20
    assert any("checked.json" in text for text in summary.warnings)


def test_runs_that_deleted_before_records_were_kept_are_compared() -> None:
    world, lost = wrong_run()
    state = state_of(world)
    (deletion,) = read_deletions(state).found
    open_deleter(state.uri).delete([f"deletions/{deletion.run_id}.json", deletion.hashes.key])
    with pytest.raises(AlarmError):
        world.collect()
    assert lost <= world.data()


def test_a_sweep_that_goes_on_after_a_check_is_compared_again() -> None:
    world = undo_store("quarantine")
    world.rules(7)
    gone = {world.upload("t", b"version 1")}
    expired = world.lake.commit("version 1").id
    world.upload("t", b"version 2 is longer")
    world.age(days=1)
    world.lake.commit("version 2")
    world.age(days=20)
    world.commit("more", b"more")
    world.age(days=20)
    tags = world.lake.catalog.tags
    killed = world.marked()
    approve(killed)
    with world.during("prepare_uncommitted", _kill), pytest.raises(KeyboardInterrupt):
        bulk_delete(killed, world.runner)
    release_lease(killed)
    tags.create_tag(world.lake.repository, "v1", expired)
    world.collect(dry_run=True)  # sees what the killed run may delete, live and in the store
    tags.delete_tag(world.lake.repository, "v1")
    resume(killed.plan.run_uri, world.runner, world.client, None, world.lake.clock)
    assert not gone & world.data()
    tags.create_tag(world.lake.repository, "v1", expired)
    world.collect_after(days=1)
    assert gone <= world.data()


def _kill() -> None:
    raise KeyboardInterrupt


def test_a_lost_record_among_others_is_made_again_from_the_folder_of_its_run() -> None:
    world, commit, gone = expired_world()
    state = state_of(world)
    (first,) = read_deletions(state).found
    world.orphan("data/slice/garbage")
    world.collect_after(days=2)
    world.age(days=1)
    world.collect(dry_run=True)
    assert len(read_deletions(state).found) == 2
    open_deleter(state.uri).delete([f"deletions/{first.run_id}.json", first.hashes.key])
    REUSES["branch"](world, commit)
    world.collect_after(days=1)
    assert gone <= world.data()
    assert len(read_deletions(state).found) == 2
