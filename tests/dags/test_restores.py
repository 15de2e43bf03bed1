"""The wiring of the DAGs that take deletions back and make them final, of both collectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from airflow.sdk import DAG

from airflow_dredge.dags import icechunk_restore, lakefs_gc_restore

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = "airflow_dredge.operators"


class Kind(NamedTuple):
    """The restores of a collector: its DAGs, the Param that names a repository, modules of the operators."""

    name: str
    what: str
    repository: str
    modules: dict[str, str]
    purge_dag: Any


KINDS = (
    Kind(
        "lakefs_gc",
        "repository",
        "lake",
        {"restore": f"{OPERATORS}.lakefs.restore", "purge": f"{OPERATORS}.lakefs.purge_by_hand"},
        lakefs_gc_restore.purge_dag,
    ),
    Kind(
        "icechunk",
        "storage",
        "s3://lake/weather",
        dict.fromkeys(("restore", "purge"), f"{OPERATORS}.icechunk.undo"),
        icechunk_restore.purge_dag,
    ),
)


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(scope="module")
def dags(kind: Kind) -> dict[str, DAG]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / f"{kind.name}_restore.py"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_params_are_these(kind: Kind, dags: dict[str, DAG]) -> None:
    """Their names are a public interface."""
    assert {name: set(dag.params) for name, dag in dags.items()} == {
        f"{kind.name}_restore": {
            kind.what,
            "run",
            "prefix",
            "address",
            "reason",
            "all",
            "keep_days",
            "because",
        },
        f"{kind.name}_purge": {kind.what, "older_than_days", "dry_run", "run", "run_root"},
    }


def test_forms_change_nothing_unless_told(kind: Kind, dags: dict[str, DAG]) -> None:
    assert dags[f"{kind.name}_purge"].params["dry_run"] is True
    assert dags[f"{kind.name}_restore"].params["all"] is False


@pytest.mark.parametrize("name", ["restore", "purge"])
def test_every_setting_reaches_its_task(kind: Kind, dags: dict[str, DAG], name: str) -> None:
    dag = dags[f"{kind.name}_{name}"]
    task = dag.get_task(name)
    assert type(task).__module__ == kind.modules[name]
    assert task.config == {setting: f"{{{{ params.{setting} }}}}" for setting in dag.params}
    assert [field for field in task.template_fields if not hasattr(task, field)] == []
    assert task.retries >= 2


def test_a_restore_is_nothing_that_is_done_regularly(kind: Kind, dags: dict[str, DAG]) -> None:
    def kinds(name: str) -> set[str]:
        found = dags[f"{kind.name}_{name}"].allowed_run_types or ()
        return {str(getattr(item, "value", item)) for item in found}

    assert kinds("restore") == {"manual", "operator_triggered"}
    assert kinds("purge") == {"manual", "scheduled", "operator_triggered", "asset_triggered"}
    assert all(dag.doc_md and dag.max_active_runs == 1 for dag in dags.values())


def test_a_schedule_can_be_made(kind: Kind, dags: dict[str, DAG]) -> None:
    dag = kind.purge_dag("purge_it", "@weekly", **{kind.what: kind.repository}, dry_run=False)
    assert dag.params[kind.what] == kind.repository
    assert dag.params["dry_run"] is False
    assert f"{kind.name}_purge" in dags
