"""The plan step: what it reads of its settings, and which window a run has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType

from airflow_dredge.operators.lakefs.plan import LakeFSPlanRunOperator
from airflow_dredge.operators.schedules import data_window
from dredge.errors import ConfigError
from dredge.runs.payload import to_json
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


WINDOW = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))


def planning(**settings: Any) -> LakeFSPlanRunOperator:
    """The operator with rendered settings, and without a connection of a store."""
    own = {name: settings.pop(name) for name in ("kv_conn_id",) if name in settings}
    config = {"repository": "lake", **settings}
    return LakeFSPlanRunOperator(task_id="plan", config=config, aws_conn_id=None, **own)


@pytest.mark.parametrize("value", ["", "None", "no", "0", None])
def test_nothing_vague_is_taken_for_permission_to_delete(value: Any) -> None:
    with pytest.raises(ConfigError, match="dry_run is"):
        planning(dry_run=value).checked()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dryrun", "False"),
        ("min_age_hours", "many"),
        ("min_age_hours", "1"),
        ("slice_margin_hours", "48"),
        ("max_delete_percent", "nan"),
        ("mode", "fast"),
        ("repository", ""),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(name: str, value: Any) -> None:
    operator = planning(**{name: value})
    operator.hook = None  # a server that nobody may ask
    with pytest.raises(ConfigError, match=name):
        operator.execute({})  # type: ignore[typeddict-item]


def test_plan_reads_rendered_values() -> None:
    operator = planning(
        dry_run="False",
        min_age_hours="48",
        unsafe_min_age_seconds="None",
        max_delete_objects="10",
        max_delete_percent="2.5",
        run_root="None",
    )
    config = operator.checked()
    assert (config.dry_run, config.min_age_hours, config.max_delete_objects) == (False, 48.0, 10)
    assert (config.max_delete_percent, config.run_root, config.unsafe_min_age_seconds) == (2.5, None, None)


def test_plan_takes_the_policy_itself_along_and_of_the_database_only_that_there_is_one() -> None:
    operator = planning(
        keep_tags="False",
        retention_policy="version: 1\nkeep:\n  - {name: releases, branches: 'release-*', last: 3}\n",
        kv_conn_id="lakefs_kv_default",
    )
    config = operator.checked()
    assert config.keep_tags is False
    assert config.read_kv is True
    assert config.policy is not None
    assert [rule.name for rule in config.policy.rules] == ["releases"]
    assert "lakefs_kv_default" not in json.dumps(to_json(config))


@pytest.mark.parametrize("empty", [None, "", "None", " "])
def test_plan_without_a_policy_keeps_tags_and_asks_the_server_only(empty: str | None) -> None:
    operator = planning(retention_policy=empty)
    config = operator.checked()
    assert (config.keep_tags, config.policy, config.read_kv) == (True, None, False)


def test_plan_names_the_line_of_a_policy_that_is_wrong() -> None:
    operator = planning(retention_policy="version: 1\nkeep:\n  - last: 0\n")
    with pytest.raises(ConfigError):
        operator.checked()


def test_plan_reads_what_an_optimized_run_is_to_do() -> None:
    operator = planning(
        mode="optimized",
        slice_margin_hours="60.5",
        clean_every_days="7",
    )
    config = operator.checked((WINDOW[0], WINDOW[1]))
    assert (config.mode, config.slice_margin_hours, config.clean_every_days) == ("optimized", 60.5, 7.0)
    assert config.window == WINDOW
    assert operator.checked().window == (None, None)


@pytest.mark.parametrize("kind", ["scheduled", "backfill", DagRunType.SCHEDULED, DagRunType.BACKFILL])
def test_a_run_on_a_schedule_works_on_its_data_interval(kind: Any) -> None:
    assert data_window(started(kind, *WINDOW)) == WINDOW


@pytest.mark.parametrize("kind", ["manual", "asset_triggered", "operator_triggered", DagRunType.MANUAL])
def test_a_run_by_hand_works_on_everything_whatever_interval_it_is_given(kind: Any) -> None:
    assert data_window(started(kind, *WINDOW)) is None


@pytest.mark.parametrize("kind", ["manual", "scheduled", "backfill"])
def test_a_run_without_an_interval_works_on_everything(kind: str) -> None:
    assert data_window(started(kind, WINDOW[0], WINDOW[0])) is None
    assert data_window(started(kind, None, None)) is None
    assert data_window({"dag_run": SimpleNamespace(run_type=kind)}) is None  # type: ignore[typeddict-item]
    assert data_window({}) is None  # type: ignore[typeddict-item]


def started(kind: Any, begin: datetime | None, end: datetime | None) -> Any:
    run = SimpleNamespace(run_type=kind)
    return {"dag_run": run, "data_interval_start": begin, "data_interval_end": end}


def test_plan_is_a_dry_run_unless_told() -> None:
    assert planning().checked().dry_run
