"""Collections on a schedule, as the Variable names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators.lakefs.params import GC_SCHEDULES, repository_settings

ROOT = Path(__file__).resolve().parents[4]
NAME = f"AIRFLOW_VAR_{GC_SCHEDULES.upper()}"
LAKE = {"schedule": "@hourly", "repository": "lake", "dry_run": False, "slice_margin_hours": 60}


def dags(monkeypatch: pytest.MonkeyPatch, value: Any) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv(NAME, json.dumps(value))
    return DagBag(dag_folder=str(ROOT / "dags" / "lakefs_gc.py"))


def test_each_entry_is_a_dag_that_can_be_backfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = dags(
        monkeypatch, {"gc_lake": LAKE, "gc_pond": LAKE | {"repository": "pond", "schedule": "0 3 * * *"}}
    )
    assert bag.import_errors == {}
    assert set(bag.dags) == {"lakefs_gc", "gc_lake", "gc_pond"}
    dag = bag.dags["gc_lake"]
    assert (dag.params["repository"], dag.params["dry_run"], dag.params["mode"]) == ("lake", False, "auto")
    assert dag.params["slice_margin_hours"] == 60
    assert dag.get_task("check").depends_on_past
    assert not bag.dags["lakefs_gc"].get_task("check").depends_on_past


def test_an_entry_deletes_nothing_unless_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = dags(monkeypatch, {"gc_lake": {"schedule": "@daily", "repository": "lake"}})
    assert bag.dags["gc_lake"].params["dry_run"] is True


def test_scheduled_dag_survives_serialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    dag = dags(monkeypatch, {"gc_lake": LAKE}).dags["gc_lake"]
    back = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert back.timetable.periodic
    assert back.get_task("check").depends_on_past
    assert back.get_task("check").wait_for_downstream
    assert {"save_report", "release_lease"} <= back.get_task("check").downstream_task_ids


def test_a_wrong_entry_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = dags(monkeypatch, {"gc": LAKE | {"dryrun": False}})
    assert len(bag.import_errors) == 1
    assert bag.dags == {}


def test_an_entry_has_the_pool_of_its_tasks_and_settings_of_all_repositories_lack_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = LAKE | {"default_args": {"pool": "gc", "execution_timeout": 7200}}
    dag = dags(monkeypatch, {"gc_lake": entry}).dags["gc_lake"]
    assert {task.pool for task in dag.tasks} == {"gc"}
    assert dag.get_task("subtract").execution_timeout.total_seconds() == 7200
    assert "default_args" not in repository_settings()[0]["lake"]
    wrong = dags(monkeypatch, {"gc_lake": LAKE | {"default_args": {"pol": "gc"}}})
    assert len(wrong.import_errors) == 1
