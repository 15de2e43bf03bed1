"""What a clean refuses as a whole: limits, plans that were changed, clocks, other cleaners, damaged records."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, FormatError, LeaseHeldError, RefusedError
from dredge.trash.margins import TrashLimits
from dredge.trash.steps import restore
from tests.support.kv_world import DAY, START
from tests.support.trash import Ground


@pytest.mark.parametrize("limit", [{"partitions": 0}, {"rows": 1}, {"size_bytes": 10}])
def test_a_plan_beyond_a_limit_is_refused_whole(ground: Ground, limit: dict[str, int]) -> None:
    ground.scan()
    with pytest.raises(RefusedError):
        ground.clean(DAY, limits=TrashLimits(**limit))
    assert ground.orphan_rows() == 2


def test_most_of_a_large_store_is_not_trash(ground: Ground) -> None:
    for _ in range(200):
        ground.world.stage(ground.world.token("lake", "main"))
    ground.scan()
    with pytest.raises(RefusedError):
        ground.clean(DAY)


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


def test_two_cleaners_do_not_work_at_once(ground: Ground) -> None:
    with ground.state.held("another"), pytest.raises(LeaseHeldError):
        ground.clean()
    with ground.state.held("another"), pytest.raises(LeaseHeldError):
        ground.scan()


def test_a_wrong_clock_stops_the_run(ground: Ground) -> None:
    ground.scan()
    ground.world.store.now += DAY
    with pytest.raises(RefusedError):
        ground.clean(clock=lambda: START)
    ground.world.store.now = START - DAY
    with pytest.raises(RefusedError):
        ground.clean()
    assert ground.orphan_rows() == 2


def test_sightings_of_one_store_say_nothing_about_another(ground: Ground) -> None:
    ground.scan()
    ground.world.kv.set(b"auth", b"installation_id", b"two")
    with pytest.raises(RefusedError):
        ground.clean(DAY)


def test_damaged_sightings_stop_the_run(ground: Ground) -> None:
    ground.scan()
    ground.state.writer.put("sightings.json", b"{")
    with pytest.raises(FormatError):
        ground.clean(DAY)


def test_restoring_never_overwrites(ground: Ground) -> None:
    ground.scan()
    run = ground.clean(DAY).scan.plan.run_id
    ground.world.kv.set(ground.orphan, b"a/1", b"newer")
    restored = restore(ground.world.store, ground.state, run, dry_run=False)
    assert (restored["rows_written"], restored["keys_existing"]) == (1, 1)
    assert ground.world.kv.get(ground.orphan, b"a/1") == b"newer"
    with pytest.raises(ConfigError):
        restore(ground.world.store, ground.state, "unknown")
