"""Whose time counts, what a dry run leaves alone, what bounds a run, and what it refuses as a whole."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.trash.apply import NamedAgainError
from dredge.trash.findings import TrashLimits
from dredge.trash.restore import restore
from dredge.trash.steps import clean, trusted_now
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


def test_a_dry_run_neither_verifies_nor_puts_back(ground: Ground) -> None:
    ground.scan()
    ground.world.store.now += DAY
    run = ground.killed()
    ground.name_orphan()
    assert ground.clean(dry_run=True).status == "dry_run"
    assert ground.state.open_run() == run
    assert ground.state.removed() == {}
    with pytest.raises(NamedAgainError):
        ground.clean()
    assert (ground.orphan_rows(), ground.state.open_run()) == (2, None)

    for entry in list(ground.world.kv.scan(ground.orphan)):
        ground.world.kv.delete(ground.orphan, entry.key)
    with ground.state.held("another") as held:
        held.note_removed([ground.orphan], run, ground.world.now)
    told = ground.clean(dry_run=True)
    assert [f.kind for f in told.scan.findings] == ["named-after-removal"]
    assert ground.orphan_rows() == 0


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


def test_a_plan_under_another_runs_name_bounds_nothing(ground: Ground) -> None:
    ground.scan()
    plans = [ground.scan(DAY).plan, ground.scan().plan]
    copied = ground.state.writer.get(f"runs/{plans[0].run_id}/plan.json")
    ground.state.writer.put(f"runs/{plans[1].run_id}/plan.json", copied)
    for digest in (None, plans[0].digest):
        with pytest.raises(RefusedError):
            ground.clean(planned=plans[1].run_id, planned_digest=digest)
    assert ground.orphan_rows() == 2
    assert fates(ground.clean(planned=plans[0].run_id)) == ["deleted"]


def test_a_token_that_the_branch_of_a_lost_repository_takes_up_stays(ground: Ground) -> None:
    """It has no record, and a person may bring that back."""
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
