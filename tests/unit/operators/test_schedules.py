"""Schedules: which runs a DAG may have, which time a run is of, and what a Variable says of repositories."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.lakefs.params import FORM
from airflow_dredge.operators.schedules import (
    NO_BACKFILLS,
    data_window,
    first_of,
    on_schedule,
    run_types,
    schedules_in,
    settings_in,
)
from dredge.errors import ConfigError

BY_HAND = {"manual", "operator_triggered", "asset_triggered"}
LAKE: dict[str, Any] = {"schedule": "@hourly", "repository": "lake"}


def test_runs_by_hand_are_many_and_those_on_a_schedule_wait_for_each_other() -> None:
    by_hand, daily = on_schedule(None), on_schedule("@daily")
    assert (by_hand["schedule"], by_hand["max_active_runs"], by_hand["is_paused_upon_creation"]) == (
        None,
        64,
        None,
    )
    assert (daily["max_active_runs"], daily["is_paused_upon_creation"]) == (1, True)
    assert first_of(None) == {"depends_on_past": False, "wait_for_downstream": False}
    assert first_of("@daily")["depends_on_past"]
    assert first_of("@daily")["wait_for_downstream"]


def test_only_a_dag_whose_runs_have_intervals_can_be_backfilled() -> None:
    assert set(run_types(None)) == BY_HAND
    assert set(run_types("@daily")) == BY_HAND | {"scheduled", "backfill"}
    assert set(NO_BACKFILLS) == BY_HAND | {"scheduled"}
    assert on_schedule(None)["allowed_run_types"] == run_types(None)


END = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("begin", "end", "has_one"),
    [
        (END - timedelta(days=1), END, True),
        (END, END, False),
        (END, END - timedelta(days=1), False),
        (None, END, False),
        (END, None, False),
    ],
)
@pytest.mark.parametrize("kind", ["scheduled", "backfill", "manual"])
def test_a_window_has_a_begin_and_a_later_end(
    kind: str, begin: datetime | None, end: datetime | None, has_one: bool
) -> None:
    context: Any = {
        "dag_run": SimpleNamespace(run_type=kind),
        "data_interval_start": begin,
        "data_interval_end": end,
    }
    window = (begin, end) if has_one and kind != "manual" else None
    assert data_window(context) == window


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set what the Variable says."""
    return lambda value: monkeypatch.setenv("AIRFLOW_VAR_SCHEDULES", value)


def settings(named: Any, **entries: Any) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    named(json.dumps(entries))
    return settings_in("schedules", "repository", FORM)


@pytest.mark.parametrize("text", ["{", "[]", '{"gc": "@daily"}', json.dumps({"gc lake": LAKE})])
def test_a_variable_that_says_something_else_is_told(named: Any, text: str) -> None:
    named(text)
    with pytest.raises(ConfigError):
        schedules_in("schedules", "repository")


def test_entries_that_agree_about_a_repository_are_one(named: Any) -> None:
    ours, conflicts = settings(
        named,
        often=LAKE | {"dry_run": "False", "mode": "optimized"},
        clean=LAKE | {"dry_run": False, "mode": "clean", "schedule": "@weekly", "repository": "lake/"},
        pond=LAKE | {"repository": "pond"},
    )
    assert ours == {"lake": {"repository": "lake", "dry_run": False}, "pond": {"repository": "pond"}}
    assert conflicts == {}


def test_an_entry_that_differs_or_cannot_be_read_takes_its_repository_out_and_no_other(named: Any) -> None:
    ours, conflicts = settings(
        named,
        often=LAKE | {"dry_run": False},
        later=LAKE,
        vague=LAKE | {"repository": "tarn", "dry_run": "perhaps"},
        right=LAKE | {"repository": "sea", "max_delete_objects": "7"},
    )
    assert set(conflicts) == {"lake", "tarn"}
    assert ours["sea"] == {"repository": "sea", "max_delete_objects": 7}
    assert "tarn" not in ours


def test_an_unknown_name_in_any_entry_is_an_error_for_all_repositories(named: Any) -> None:
    """What it was to change is not known, and it may have been a limit."""
    with pytest.raises(
        ConfigError, match="'wrong': unknown setting max_delete_object; nearest is max_delete_objects;"
    ):
        settings(named, right=LAKE, wrong=LAKE | {"repository": "pond", "max_delete_object": 1})
