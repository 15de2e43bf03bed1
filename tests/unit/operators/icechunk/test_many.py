"""What each of many repositories is collected with: a dry run whenever anybody says so."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators import schedules
from airflow_dredge.operators.icechunk.many import storage_settings
from airflow_dredge.operators.many import conf_of, run_id

PARAMS: dict[str, Any] = {"older_than": "30d", "dry_run": False, "min_age_hours": 168}
WEATHER = "s3://lake/weather"


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    monkeypatch.setattr(schedules, "schedules_in", lambda *_: entries)
    return entries


@pytest.mark.parametrize(
    ("params", "own", "dry_run"),
    [
        (False, None, False),
        (True, None, True),
        (True, {"dry_run": False}, True),
        (False, {"dry_run": True}, True),
        (False, {}, True),
        (False, {"dry_run": False}, False),
    ],
)
def test_run_deletes_only_when_nobody_says_that_it_is_a_dry_run(
    params: bool, own: dict[str, Any] | None, dry_run: bool
) -> None:
    conf = conf_of("storage", WEATHER, PARAMS | {"dry_run": params}, own)
    assert (conf["dry_run"], conf["storage"]) == (dry_run, WEATHER)


def test_settings_of_the_variable_are_those_of_their_repository(variable: dict[str, Any]) -> None:
    variable["a"] = {"schedule": "@daily", "storage": f"{WEATHER}/", "min_age_hours": "200", "dry_run": False}
    ours, conflicts = storage_settings()
    assert ours == {WEATHER: {"storage": WEATHER, "min_age_hours": 200.0, "dry_run": False}}
    assert conflicts == {}
    assert conf_of("storage", WEATHER, PARAMS, ours[WEATHER])["min_age_hours"] == 200.0


def test_entries_that_differ_or_cannot_be_read_leave_their_repository_out(variable: dict[str, Any]) -> None:
    variable["a"] = {"schedule": "@daily", "storage": WEATHER, "min_age_hours": 200}
    variable["b"] = {"schedule": "@weekly", "storage": WEATHER, "min_age_hours": 300, "mode": "clean"}
    variable["c"] = {"schedule": "@weekly", "storage": "s3://lake/other", "no_such": 1}
    _, conflicts = storage_settings()
    assert set(conflicts) == {WEATHER, "s3://lake/other"}
    assert "no_such" in conflicts["s3://lake/other"]


def test_other_settings_make_another_run_and_the_same_ones_the_same() -> None:
    class Run:
        dag_id = "icechunk_all"

    context: Any = {"dag_run": Run(), "run_id": "manual__1"}
    first = run_id(context, {"storage": WEATHER, "dry_run": True})
    assert first == run_id(context, {"dry_run": True, "storage": WEATHER})
    assert first != run_id(context, {"storage": WEATHER, "dry_run": False})
    assert first != run_id(context, {"storage": f"{WEATHER}2", "dry_run": True})
