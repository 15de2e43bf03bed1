"""The wiring of lakefs_gc_all and icechunk_all: many repositories, one page, and nothing that stops one because of
another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from airflow.sdk import DAG

from airflow_dredge.dags.icechunk_all import icechunk_all_dag
from airflow_dredge.dags.icechunk_expiration import icechunk_dag
from airflow_dredge.dags.lakefs_gc import gc_dag
from airflow_dredge.dags.lakefs_gc_all import gc_all_dag

ROOT = Path(__file__).resolve().parents[2]


class Kind(NamedTuple):
    """A collector: its DAG, the functions that make one for all and for one repository, Params, modules."""

    name: str
    all_dag: Any
    one_dag: Any
    what: str
    which: str
    all_of_them: str | None
    modules: tuple[str, str]


KINDS = (
    Kind(
        "lakefs_gc_all",
        gc_all_dag,
        gc_dag,
        "repository",
        "repositories",
        "*",
        ("lakefs.choose_repositories", "lakefs.save_summary"),
    ),
    Kind(
        "icechunk_all",
        icechunk_all_dag,
        icechunk_dag,
        "storage",
        "storages",
        None,
        ("icechunk.many", "icechunk.many"),
    ),
)


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(scope="module")
def dag(kind: Kind) -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / f"{kind.name}.py"))
    assert bag.import_errors == {}
    return bag.dags[kind.name]


def test_the_page_is_written_whatever_became_of_the_runs(kind: Kind, dag: DAG) -> None:
    assert dag.get_task("save_summary").is_teardown
    assert dag.get_task("save_summary").upstream_task_ids >= {"collect_repository", "choose_repositories"}
    assert [outlet.name for outlet in dag.get_task("save_summary").outlets] == [f"dredge_{kind.name}"]


def test_a_repository_that_failed_makes_the_run_fail_and_an_empty_server_does_not(dag: DAG) -> None:
    last = dag.get_task("all_collected")
    assert last.upstream_task_ids == {"choose_repositories", "collect_repository", "save_summary"}
    assert (last.is_teardown, last.on_failure_fail_dagrun) == (True, True)
    assert [task.task_id for task in dag.tasks if not task.downstream_task_ids] == ["all_collected"]


def test_each_repository_has_a_row_of_its_own_and_so_many_are_collected_at_once(kind: Kind, dag: DAG) -> None:
    def at_once(found: DAG) -> Any:
        task: Any = found.get_task("collect_repository")
        return task.is_mapped, task.partial_kwargs["max_active_tis_per_dag"]

    assert at_once(dag) == (True, 4)
    assert at_once(kind.all_dag("nightly", "@daily", at_once=8, dry_run=False)) == (True, 8)
    row: Any = dag.get_task("collect_repository")
    assert row.partial_kwargs["map_index_template"] == "{{ task.label }}"


def test_dag_survives_serialisation(dag: DAG) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    back = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(back.task_ids) == set(dag.task_ids)
    assert back.get_task("collect_repository").max_active_tis_per_dag == 4
