"""The wiring of icechunk_restore and icechunk_purge."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import DAG

from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / "icechunk_restore.py"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_params_are_these(dags: dict[str, DAG]) -> None:
    """Their names are a public interface."""
    assert {name: set(dag.params) for name, dag in dags.items()} == {
        "icechunk_restore": {
            "storage",
            "run",
            "prefix",
            "address",
            "reason",
            "all",
            "keep_days",
            "because",
        },
        "icechunk_purge": {"storage", "older_than_days", "dry_run", "run", "run_root"},
    }


def test_forms_change_nothing_unless_told(dags: dict[str, DAG]) -> None:
    assert dags["icechunk_purge"].params["dry_run"] is True
    assert dags["icechunk_restore"].params["all"] is False


@pytest.mark.parametrize("name", ["restore", "purge"])
def test_every_setting_reaches_its_task(dags: dict[str, DAG], name: str) -> None:
    dag = dags[f"icechunk_{name}"]
    task = dag.get_task(name)
    assert type(task).__module__ == "airflow_dredge.operators.icechunk.undo"
    assert task.config == {setting: f"{{{{ params.{setting} }}}}" for setting in dag.params}
    assert [field for field in task.template_fields if not hasattr(task, field)] == []
    assert task.retries >= 2


def test_a_schedule_can_be_made(dags: dict[str, DAG]) -> None:
    from airflow_dredge.dags.icechunk_restore import purge_dag

    dag = purge_dag("purge_weather", "@weekly", storage="s3://lake/weather", dry_run=False)
    assert dag.params["storage"] == "s3://lake/weather"
    assert dag.params["dry_run"] is False
    assert "icechunk_purge" in dags
