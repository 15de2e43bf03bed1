"""A worker was lost, its step was tried again, and the earlier try lives on: whatever it does late counts for
nothing."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from dredge.errors import ConflictError, OvertakenError, RefusedError
from dredge.gc.config import GCConfig
from dredge.gc.planning import acquire_lease
from dredge.gc.run import PLAN
from dredge.gc.save_report.advance_state import advance_state
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    run_steps,
    subtract,
)
from dredge.runs import ledger
from dredge.runs.lease import hand_over
from dredge.runs.run import release_lease
from dredge.storage import DeleteOutcome, open_writer
from tests.support.gc import World, busy_world, deleting, stage_again, summary_of
from tests.support.memory_store import MemoryDeleter
from tests.support.orphans import MOMENTS, Moment, sleep_once, unchanged
from tests.support.tries import HERE, STEPS, come_to, die, driver


def metadata(world: World) -> dict[str, bytes]:
    reader = open_writer(f"{world.lake.namespace}/_lakefs/retention/gc")
    return {key: reader.get(key) for batch in reader.list("") for key in batch["key"].to_pylist()}


def test_sweep_keeps_what_only_an_orphaned_try_of_list_committed_saw() -> None:
    """It slept through its retry, and saw a commit that the retry's candidates were not compared with."""
    world, kept, gone = busy_world()
    orphan = world.plan()
    retry = driver(world, orphan)
    come_to(orphan, "list_committed")
    late = min(gone)

    def retry_and_commit() -> None:
        for step in (list_committed, subtract, check_limits):
            step(retry, HERE)
        stage_again(world, late)  # by another length than that of all the others
        world.lake.commit()

    with (
        world.during("branches", retry_and_commit),
        pytest.raises(OvertakenError, match="list_committed"),
    ):
        list_committed(orphan, HERE)
    bulk_delete(retry, HERE)
    assert world.data() == kept | {late}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STEPS)
def test_an_orphaned_try_of_any_step_leaves_no_result_and_touches_none(name: str, moment: Moment) -> None:
    world, kept, _ = busy_world()
    orphan = world.plan()
    retry = driver(world, orphan)
    come_to(orphan, name)
    before: dict[str, bytes] = {}

    def retried() -> None:
        STEPS[name](retry, HERE)
        before.update(metadata(world))

    sleep_once(orphan.folder, moment, retried)
    # The state's pointer shows an orphan that it comes too late before it gets to its summary.
    with pytest.raises((OvertakenError, ConflictError)):
        STEPS[name](orphan, HERE)
    assert unchanged(before, metadata(world), "lease.json") == []
    assert summary_of(retry, name).try_number == 2
    run_steps(retry, HERE)
    assert world.data() == kept


@pytest.mark.parametrize("done", [True, False], ids=["was done", "only began"])
def test_an_orphaned_sweep_makes_no_request_once_its_retry_has_begun(done: bool) -> None:
    world, kept, gone = busy_world(safety={"gate_every_seconds": 0})
    orphan = world.marked()
    retry = driver(world, orphan)
    made: list[int] = []
    if not done:
        sleep_once(retry.folder, "before its work", die)

    def retried(number: int, _keys: object) -> None:
        if number == 1:
            with nullcontext() if done else pytest.raises(KeyboardInterrupt):
                bulk_delete(retry, HERE)
            made.append(len(requests.made))

    with deleting(before=retried) as requests, pytest.raises(OvertakenError, match="step bulk_delete"):
        bulk_delete(orphan, HERE)
    assert len(requests.made) == made[0]
    bulk_delete(driver(world, orphan), HERE)
    assert world.data() == kept
    assert summary_of(retry, ledger.STEP).counts["deleted_objects"] == len(gone)


def test_sweep_keeps_what_came_alive_while_a_busy_store_let_an_orphan_wait(stand_in: Any) -> None:
    """A throttled deleter waits and tries again. Its look through the gate is old by then."""
    world, kept, gone = busy_world(safety={"gate_every_seconds": 0})
    orphan = world.marked()
    retry = driver(world, orphan)
    alive: list[str] = []

    def busy(honest: Any, deleter: MemoryDeleter, keys: Sequence[str], *gate: Any) -> list[DeleteOutcome]:
        done: list[DeleteOutcome] = honest(deleter, keys[:1], *gate)
        if not alive and len(keys) > 1:
            alive.append(keys[1])
            stage_again(world, keys[1])  # by another length than that of all the others
            world.lake.commit()
            bulk_delete(retry, HERE)
        return done + honest(deleter, keys[1:], *gate)

    stand_in(MemoryDeleter.delete, busy)
    with pytest.raises(OvertakenError, match="step bulk_delete"):
        bulk_delete(orphan, HERE)
    assert world.data() == kept | set(alive)
    counts = summary_of(retry, ledger.STEP).counts
    assert (counts["deleted_objects"], counts["missing_objects"]) == (len(gone) - 2, 1)


def test_a_sweep_does_not_take_back_a_lease_that_its_run_gave_back() -> None:
    """The run was ended while it checked again: nobody waits for it any more."""
    world, kept, gone = busy_world()
    orphan = world.marked()
    with (
        world.during("prepare_uncommitted", lambda: release_lease(orphan)),
        deleting() as requests,
        pytest.raises(RefusedError),
    ):
        bulk_delete(orphan, HERE)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_driver_that_lost_its_lease_fences_nobody_off() -> None:
    """Only who may go on claims a try: else the step of the run that goes on would end for nothing."""
    world, kept, _ = busy_world()
    context = world.marked()
    grant = acquire_lease(GCConfig(repository="lake"), context.plan.lease.holder, world.client)
    old = driver(world, context)
    assert hand_over(context.folder.writer, PLAN, grant)
    resumed = driver(world, context)

    def disturb() -> None:
        with pytest.raises(RefusedError, match="is lost"):
            bulk_delete(old, HERE)

    with world.during("prepare_uncommitted", disturb):
        run_steps(resumed, HERE)
    assert world.data() == kept


def test_a_state_that_was_moved_on_before_its_summary_was_written_can_be_moved_on_again() -> None:
    world, _, _ = busy_world()
    context = world.plan()
    come_to(context, "state")

    sleep_once(context.folder, "before its summary", die)
    with pytest.raises(KeyboardInterrupt):
        advance_state(context)
    run_steps(driver(world, context), HERE)
    release_lease(context)
    world.age(days=1)
    assert world.plan(mode="auto").plan.mode == "optimized"
