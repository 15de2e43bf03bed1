"""What a user may ask for, checked once, with messages that say what to write instead."""

from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.gc.config import GCConfig
from dredge.gc.run import Plan
from dredge.runs.payload import from_json, to_json
from tests.support.gc import make_world


def test_the_defaults_delete_nothing_and_wait_a_day_and_an_hour() -> None:
    config = GCConfig(repository="lake")
    assert config.dry_run
    assert config.min_age_seconds == 25 * 3600


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repository": ""}, "repository"),
        ({"mode": "quick"}, "mode .*auto, optimized or clean"),
        ({"slice_margin_hours": 49}, "slice_margin_hours"),
        ({"window_begin": "2026-01-01"}, "no offset"),
        ({"window_begin": "2026-01-02T00:00Z", "window_end": "2026-01-01T00:00Z"}, "window_begin"),
        ({"min_age_hours": 6}, "unsafe_min_age_seconds"),
        ({"unsafe_min_age_seconds": -1}, "at least 0 and at most 3,153,600,000, or empty"),
        ({"max_delete_objects": -1}, "max_delete_objects"),
        ({"max_delete_percent": 101}, "at most 100, or empty"),
        ({"max_delete_bytes": -5}, "max_delete_bytes"),
        ({"safety": {"lease_seconds": 0}}, "lease_seconds"),
        ({"tuning": {"part_rows": 0}}, "part_rows"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_json(GCConfig, {"repository": "lake", **settings})


def test_run_folders_stay_for_a_week_at_least() -> None:
    assert from_json(GCConfig, {"repository": "lake", "keep_runs_days": 7}).keep_runs_days == 7
    with pytest.raises(ConfigError, match="keep_runs_days"):
        from_json(GCConfig, {"repository": "lake", "keep_runs_days": 6.9})


@pytest.mark.parametrize(
    "settings",
    [
        {"min_age_hours": 1e8, "slice_margin_hours": 2e8},
        {"unsafe_min_age_seconds": 1e300},
        {"slice_margin_hours": 1e9},
        {"clean_every_days": 1e9, "mode": "auto"},
        {"keep_runs_days": 1e6},
    ],
)
def test_times_that_no_calendar_has_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="at most"):
        from_json(GCConfig, {"repository": "lake", **settings})


def test_a_plan_survives_json_and_holds_no_secret() -> None:
    plan = make_world().plan().plan
    value = to_json(plan)
    assert from_json(Plan, value) == plan
    assert "secret" not in str(value).lower()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["mark_age_hours_max", "watch_silence_seconds_max"])
def test_a_margin_that_is_no_finite_number_is_refused(name: str, value: float) -> None:
    """It compares false with everything, so it would hold nothing."""
    with pytest.raises(ConfigError, match=f"{name} is {value:g}"):
        from_json(GCConfig, {"repository": "lake", "safety": {name: value}})
