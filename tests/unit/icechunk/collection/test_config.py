"""Settings of a collection."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig, Safety
from dredge.icechunk.expiration.config import Expiration
from tests.support.icechunk_repo import Repo


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
