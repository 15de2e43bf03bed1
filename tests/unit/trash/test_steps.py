"""Whose time counts, what a dry run leaves alone, what bounds a run, and what it refuses as a whole."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import ConfigError, FormatError, RefusedError, UnavailableError
from dredge.trash.findings import (
    KINDS,
    TrashFinding,
    TrashLimits,
    TrashPlan,
    check_kinds,
    check_limits,
    in_both,
)
from dredge.trash.restore import restore
from dredge.trash.steps import clean, trusted_now
from tests.support.killing import failing_writes
from tests.support.kv_world import DAY, START
from tests.support.trash import MARGINS, Ground, fates

INSTANT = timedelta(microseconds=1)
SKEW = MARGINS.clock_skew


# The time


class Clocked:
    """A store of which only the clock is asked."""

    def __init__(self, now: datetime | None) -> None:
        self.now = now

    def clock(self) -> datetime | None:
        return self.now


def now_of(store: datetime | None, machine: datetime) -> datetime:
    return trusted_now(Clocked(store), machine, MARGINS)  # type: ignore[arg-type]


def test_the_stores_time_counts_and_the_machines_only_where_it_has_none() -> None:
    assert now_of(START + SKEW, START) == START + SKEW
    assert now_of(START - SKEW, START) == START - SKEW
    assert now_of(None, START) == START
    for skew in (SKEW + INSTANT, -SKEW - INSTANT):
        with pytest.raises(RefusedError):
            now_of(START + skew, START)


def test_after_a_clock_went_back_everything_waits_longer_never_shorter(ground: Ground) -> None:
    ground.scan()
    ground.scan(-2 * DAY)
    assert ground.clean(DAY - INSTANT).outcomes == ()
    assert fates(ground.clean(INSTANT)) == ["deleted"]


def test_a_wrong_clock_is_told_before_anything_is_read(ground: Ground) -> None:
    views = []
    ground.before_view(2, lambda: views.append("a look"))
    with pytest.raises(RefusedError):
        ground.clean(clock=lambda: START + DAY)
    assert views == []


# Dry runs


def test_a_clean_is_a_dry_run_unless_it_is_told_otherwise(ground: Ground) -> None:
    ground.scan()
    ground.world.store.now += DAY
    plan = clean(
        ground.world.store,
        ground.state,
        clock=ground.world.store.machine_clock,
        margins=MARGINS,
        limits=TrashLimits(),
        holder="the task",
    ).scan.plan
    assert [f.partition for f in plan.findings] == [ground.orphan]
    told = ground.report()
    assert (told["status"], told["rows_removed"], told["holder"]) == ("dry_run", 0, "the task")
    assert ground.orphan_rows() == 2


# What bounds a run


def test_a_token_that_the_branch_of_a_lost_repository_takes_up_stays(ground: Ground) -> None:
    lost, token = ground.world.beginning("pond")
    ground.world.stage(token)
    ground.scan()
    ground.before_view(
        4, lambda: ground.world.branch(lost, "main", "head", token, sealed=[ground.orphan.decode()])
    )
    assert fates(ground.clean(DAY)) == ["named"]
    assert ground.orphan_rows() == 2


@pytest.mark.parametrize("limit", [{"partitions": 0}, {"rows": 1}, {"size_bytes": 10}])
def test_a_plan_beyond_a_limit_is_refused_whole(ground: Ground, limit: dict[str, int]) -> None:
    ground.scan()
    with pytest.raises(RefusedError):
        ground.clean(DAY, limits=TrashLimits(**limit))
    assert ground.orphan_rows() == 2


def test_a_store_without_any_repository_record_is_not_cleaned(ground: Ground) -> None:
    ground.scan()
    ground.world.kv.delete(b"graveler", b"repos/lake")
    with pytest.raises(RefusedError):
        ground.clean(DAY)


def test_an_approved_plan_bounds_the_run(ground: Ground) -> None:
    ground.scan()
    approved = ground.scan(DAY)
    ground.world.import_status(ground.partition, START - 9 * DAY)
    report = ground.clean(planned=approved.plan.run_id)
    assert [o.finding.kind for o in report.outcomes] == ["staging-orphan"]


def test_a_plan_that_was_changed_is_not_executed(ground: Ground) -> None:
    ground.scan()
    run = ground.scan(DAY).plan.run_id
    name = f"runs/{run}/plan.json"
    changed = ground.state.writer.get(name).replace(b'"rows": 2', b'"rows": 3')
    ground.state.writer.put(name, changed.replace(b"staging-orphan", b"zombie-create"))
    with pytest.raises(FormatError):
        ground.clean(planned=run)


def test_what_was_put_back_has_its_whole_grace_again(ground: Ground) -> None:
    ground.scan()
    run = ground.clean(DAY).scan.plan.run_id
    assert ground.orphan_rows() == 0
    restore(ground.world.store, ground.state, run, dry_run=False)
    assert ground.clean().outcomes == (), "nobody brings rows back to have them removed by the next run"
    assert ground.orphan_rows() == 2
    ground.clean(DAY)
    assert ground.orphan_rows() == 0


def test_restoring_never_overwrites(ground: Ground) -> None:
    ground.scan()
    run = ground.clean(DAY).scan.plan.run_id
    ground.world.kv.set(ground.orphan, b"a/1", b"newer")
    restored = restore(ground.world.store, ground.state, run, dry_run=False)
    assert (restored["rows_written"], restored["keys_existing"]) == (1, 1)
    assert ground.world.kv.get(ground.orphan, b"a/1") == b"newer"
    with pytest.raises(ConfigError):
        restore(ground.world.store, ground.state, "unknown")


# Runs that did not end


def test_what_a_killed_run_did_not_reach_is_not_remembered_as_removed(ground: Ground) -> None:
    ground.scan()
    ground.world.store.now += DAY
    ground.killed(deletes=False)
    ground.name_orphan()
    ground.world.branch(ground.partition, "main", ground.head, ground.main)
    ground.clean(kinds=["marker"])
    assert ground.state.removed() == {}
    assert ground.state.open_run() is None


AWAY = UnavailableError("gone")


def test_a_run_is_open_until_what_it_removed_is_remembered(ground: Ground) -> None:
    ground.scan()
    ground.world.store.now += DAY
    run = ground.killed()
    with failing_writes("removed.json", AWAY), pytest.raises(UnavailableError):
        ground.clean()
    assert ground.state.open_run() == run
    ground.clean()
    assert ground.state.open_run() is None
    assert set(ground.state.removed()) == {ground.orphan}


# The end


@pytest.mark.parametrize("named", [False, True])
def test_what_was_removed_is_remembered_though_the_report_cannot_be_written(
    ground: Ground, named: bool
) -> None:
    ground.scan()
    if named:
        ground.world.store.after_delete.append(ground.name_orphan)
    with failing_writes("report.json", AWAY), pytest.raises(UnavailableError):
        ground.clean(DAY)
    assert ground.state.open_run() is not None
    assert set(ground.state.removed()) == (set() if named else {ground.orphan})


TRASH = TrashFinding(b"lake-a:1", None, "staging-orphan", "trash", "why", 2, 10, "d1")
KEY = TrashFinding(b"lake", b"imports/x", "import-expired", "trash", "why", 1, 5, "d2")


def plan_of(findings: Sequence[TrashFinding], partitions: int = 4) -> TrashPlan:
    return TrashPlan("run", "memory://", START, tuple(findings), partitions, 3)


def test_only_kinds_that_can_become_trash_may_be_asked_for() -> None:
    assert check_kinds(None) == frozenset(KINDS)
    assert check_kinds(["marker"]) == {"marker"}
    assert check_kinds([]) == frozenset()
    with pytest.raises(ConfigError):
        check_kinds(["marker", "lost-repository"])


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "wait"},
        {"verdict": "report"},
        {"partition": b"lake-b:1"},
        {"key": b"k"},
        {"kind": "staging-queued"},
        {"digest": "d3"},
    ],
)
def test_what_a_second_look_sees_otherwise_is_not_kept(change: dict[str, Any]) -> None:
    assert in_both([TRASH, KEY], [replace(TRASH, why="another"), KEY]) == (TRASH, KEY)
    assert in_both([TRASH, KEY], [replace(TRASH, **change), KEY]) == (KEY,)


def trash(count: int) -> list[TrashFinding]:
    return [replace(TRASH, partition=b"lake-%d:1" % number) for number in range(count)]


@pytest.mark.parametrize(
    ("partitions", "count", "refused"),
    [
        (100, 50, False),
        (100, 51, True),
        (99, 99, False),
        (102, 51, False),
        (101, 51, True),
        (200, 100, False),
    ],
)
def test_up_to_half_of_a_large_store_may_go(partitions: int, count: int, refused: bool) -> None:
    plan = plan_of([*trash(count), KEY, KEY], partitions)
    expected: AbstractContextManager[object] = pytest.raises(RefusedError) if refused else nullcontext()
    with expected:
        check_limits(plan, TrashLimits(), 1)


def test_without_a_repository_record_single_keys_may_go_and_partitions_not() -> None:
    check_limits(plan_of([KEY]), TrashLimits(), 0)
    check_limits(plan_of([], partitions=0), TrashLimits(), 0)
    with pytest.raises(RefusedError):
        check_limits(plan_of([KEY, TRASH]), TrashLimits(), 0)
