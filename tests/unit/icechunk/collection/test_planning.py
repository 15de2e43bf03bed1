"""Plan and settings of a run; continuation of a stopped local run."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import AwaitingApprovalError, ConfigError, LeaseHeldError, RefusedError
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import CollectConfig, Safety
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    check_resumable,
    is_local,
    plan_collection,
    release_lease,
    resume_run,
    to_its_end,
)
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.runs.payload import to_json
from dredge.runs.run import reopen
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk_repo import Repo


def test_plan_holds_no_secrets_and_round_trips(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "correct-horse")
    plan = plan_collection(repo.config(max_delete_percent=50.0))
    run = Run.open(plan.run_uri)
    assert run.plan == plan
    assert "correct-horse" not in json.dumps(to_json(plan))


def test_lease_is_handed_over_to_a_run_of_the_same_holder_and_repository_only(v1: Repo) -> None:
    plan = plan_collection(v1.config())
    first = plan.lease
    later = replace(first, fencing=first.fencing + 2)
    assert not resume_run(Run.open(plan.run_uri), f"{plan.uri}-2", later)
    assert not resume_run(Run.open(plan.run_uri), plan.uri, replace(later, holder="another"))
    assert Run.open(plan.run_uri).plan == plan
    assert resume_run(Run.open(plan.run_uri), plan.uri, later)
    assert not resume_run(Run.open(plan.run_uri), plan.uri, replace(first, fencing=first.fencing + 1))
    assert Run.open(plan.run_uri).plan == replace(plan, lease=later)


NOW = datetime(2026, 5, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("begun_hours_ago", "cutoff_hours_ago"), [(None, 168), (200, 200), (168, 168), (100, 168)]
)
def test_cutoff_is_the_minimum_age_ago_or_the_beginning_of_an_older_inventory(
    begun_hours_ago: float | None, cutoff_hours_ago: float
) -> None:
    config = CollectConfig(uri="x")
    begun = None if begun_hours_ago is None else NOW - begun_hours_ago * HOUR
    assert config.cutoff(NOW, begun) == NOW - cutoff_hours_ago * HOUR


def test_store_that_keeps_no_conditions_is_refused_before_anything_is_held(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RefusedError("no conditions")

    lease = v1.folder / "_dredge" / "lease.json"
    before = lease.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(steps, "demand_conditions", refused)
        with pytest.raises(RefusedError, match="no conditions"):
            plan_collection(v1.config())
    assert lease.read_bytes() == before
    plan_collection(v1.config())
    assert lease.read_bytes() != before


def test_run_that_took_its_lease_itself_goes_on_under_a_new_one(v1: Repo) -> None:
    run = v1.plan()
    assert is_local(run)
    release_lease(run)
    again = reopen(lambda: Run.open(run.plan.run_uri))
    assert again.plan.run_id == run.plan.run_id
    assert again.plan.lease.fencing == run.plan.lease.fencing + 1
    with pytest.raises(LeaseHeldError):
        make_lease(again.state).acquire("another")


def test_a_run_that_waits_holds_others_back_and_one_that_lost_its_lease_cannot_be_resumed(v1: Repo) -> None:
    (v1.folder / "chunks" / ("0" * 20)).write_bytes(b"orphan")
    time.sleep(1.1)  # the folder tells whole seconds
    run = v1.plan(approval="always")
    with pytest.raises(AwaitingApprovalError):
        to_its_end(run, LocalRunner())
    with pytest.raises(LeaseHeldError):
        make_lease(run.state).acquire("another")
    check_resumable(run)
    release_lease(run)
    make_lease(run.state).acquire("another")
    with pytest.raises(LeaseHeldError):
        check_resumable(run)


def test_run_of_an_orchestrator_is_left_to_it(v1: Repo) -> None:
    grant = make_lease(open_state(v1.uri)).acquire("dag run")
    run = Run.open(plan_collection(v1.config(), grant).run_uri)
    assert not is_local(run)
    with pytest.raises(ConfigError, match="dag run"):
        reopen(lambda: Run.open(run.plan.run_uri))


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_age_hours": 1, "unsafe_min_age_seconds": None},
        {"grace_hours": -1, "unsafe_grace_seconds": None},
        {"max_delete_objects": -1},
        # So long ago that no date says it.
        {"min_age_hours": 1e8, "unsafe_min_age_seconds": None},
        {"unsafe_min_age_seconds": 1e12},
        {"grace_hours": 1e8, "unsafe_grace_seconds": None},
        {"overwritten_min_age_hours": 1e8},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Repo(tmp_path).config(**wrong)


def test_who_says_nothing_gets_a_dry_run_with_wide_margins() -> None:
    config = CollectConfig(uri="x")
    assert (config.dry_run, config.keep_chunks, config.keep_transactions) == (True, False, False)
    assert (config.min_age_hours, config.grace_hours, config.overwritten_min_age_hours) == (168, None, None)
    assert (config.clean_every_days, config.keep_runs_days) == (30, 90)
    assert config.min_age_seconds == 168 * 3600
    assert config.safety == Safety(
        clock_skew_seconds_max=300,
        mark_age_hours_max=12,
        lease_seconds=3600,
        gate_every_seconds=3,
        watch_silence_seconds_max=60,
        inventory_days_max=14,
        canary_chunks=20,
    )
    assert (config.tuning.counted_layers_max, config.tuning.index_parts_max) == (24, 64)
    after = Expiration(threshold="2026-05-01T00:00:00+00:00")
    assert (after.delete_expired_branches, after.delete_expired_tags) == (False, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_age_hours": 23.9},
        {"unsafe_min_age_seconds": -0.1},
        {"grace_hours": 19.9},
        {"unsafe_grace_seconds": -0.1},
        {"clean_every_days": -0.1},
        {"overwritten_min_age_hours": -0.1},
    ],
)
def test_smaller_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CollectConfig(uri="x", **wrong)


def test_margin_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError):
        Safety(clock_skew_seconds_max=float("nan"))


def test_planned_expiration_is_for_dry_runs() -> None:
    after = Expiration(threshold="2026-05-01T00:00:00+00:00")
    assert CollectConfig(uri="x", after=after).after == after
    with pytest.raises(ConfigError, match="after"):
        CollectConfig(uri="x", after=after, dry_run=False)
    assert CollectConfig(uri="x", dry_run=False).after is None


@pytest.mark.parametrize(
    ("undo", "spec", "settings", "hours"),
    [
        ("versions", 2, {}, 20),
        ("quarantine", 2, {}, 20),
        ("off", 2, {}, 72),
        ("off", 1, {}, 168),
        ("versions", 1, {"min_age_hours": 24}, 24),
        ("off", 1, {"min_age_hours": 24}, 72),
        ("off", 2, {"grace_hours": 30}, 30),
        ("versions", 1, {"grace_hours": 30, "min_age_hours": 40}, 40),
        ("off", 1, {"unsafe_grace_seconds": 3600}, 1),
    ],
)
def test_grace_is_longer_without_undo_and_on_spec_1_the_minimum_age_at_least(
    undo: str, spec: int, settings: dict[str, Any], hours: float
) -> None:
    assert CollectConfig(uri="x", **settings).grace(undo, spec) == timedelta(hours=hours)
