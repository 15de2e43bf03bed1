"""The wiring of lakefs_gc_metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import DAG

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def dag() -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / "lakefs_gc_metadata.py"))
    assert bag.import_errors == {}
    return bag.dags["lakefs_gc_metadata"]


def test_params_are_these_and_change_nothing_unless_told(dag: DAG) -> None:
    """Their names are a public interface."""
    settings = {"repository", "metadata", "dry_run", "min_age_hours", "keep_unnamed_days", "keep_copies_days"}
    settings |= {"grace_hours", "unsafe_grace_seconds"}
    assert set(dag.params) == {*settings, "kv_conn_id"}
    assert dag.params["metadata"] == "report"
    assert dag.params["dry_run"] is True
    task = dag.get_task("metadata")
    assert task.config == {name: f"{{{{ params.{name} }}}}" for name in settings}
    assert task.kv_conn_id == "{{ params.kv_conn_id }}"
    assert [field for field in task.template_fields if not hasattr(task, field)] == []


def test_a_schedule_can_be_made(dag: DAG) -> None:
    from airflow_dredge.dags.lakefs_gc_metadata import metadata_dag

    made = metadata_dag("metadata_lake", "@daily", repository="lake", metadata="delete", dry_run=False)
    assert made.params["metadata"] == "delete"
    assert made.params["dry_run"] is False
    assert made.dag_id != dag.dag_id
