"""Expired data that is used again: brought back where that is possible, reported, and nothing stops."""

from __future__ import annotations

import pytest

from dredge.gc.planning import release_lease
from dredge.undo.alarms import read_alarms
from dredge.undo.pins import read_pins
from tests.support.gc import summary_of
from tests.support.undo import WAYS
from tests.support.wrong_runs import REUSES, expired_world


@pytest.mark.parametrize("reuse", REUSES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("explained", [True, False], ids=["by its reason", "by the history"])
@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_expired_data_that_is_used_again_comes_back_without_an_alarm(
    way: str, reuse: str, explained: bool, mode: str
) -> None:
    settings = {} if explained else {"tuning": {"explain_ranges_max": 0}}
    world, commit, gone = expired_world(way, **settings)
    REUSES[reuse](world, commit)
    run = world.plan(mode=mode)
    report = world.run(run)
    assert report.details["outcome"] == "success"
    assert gone <= world.data()
    counts = summary_of(run, "check_limits").counts
    assert counts["reused_objects"] == counts["brought_back_objects"] == len(gone)
    assert not read_alarms(run.state)
    (pin,) = read_pins(run.state)
    assert pin.objects == len(gone)
    world.age(days=1)
    later = world.plan(mode=mode)
    world.run(later)
    assert summary_of(later, "check_limits").counts["reused_objects"] == 0
    assert gone <= world.data()


def test_what_one_run_only_reported_the_next_one_brings_back() -> None:
    world, commit, gone = expired_world()
    REUSES["branch"](world, commit)
    for _ in range(2):
        run = world.plan(dry_run=True, restore_reused=False)
        world.run(run)
        assert summary_of(run, "check_limits").counts["not_brought_back_objects"] == len(gone)
    assert not gone & world.data()
    world.collect()
    assert gone <= world.data()


def test_it_is_only_reported_where_restore_reused_is_off() -> None:
    world, commit, gone = expired_world(restore_reused=False)
    REUSES["branch"](world, commit)
    run = world.plan()
    assert world.run(run).details["outcome"] == "success"
    assert not gone & world.data()
    summary = summary_of(run, "check_limits")
    assert summary.counts["not_brought_back_objects"] == len(gone)
    assert any("restore_reused" in text for text in summary.warnings)


def test_it_is_reported_where_there_is_no_way_back() -> None:
    world, commit, gone = expired_world("off")
    REUSES["tag"](world, commit)
    run = world.plan()
    assert world.run(run).details["outcome"] == "success"
    assert summary_of(run, "check_limits").counts["not_brought_back_objects"] == len(gone)
    release_lease(run)
