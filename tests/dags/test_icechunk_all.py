"""The wiring of icechunk_all: many repositories, one page, and nothing that stops one because of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.support.airflow import FILTERS

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


@pytest.fixture(scope="module")
def dag() -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / "icechunk_all.py"))
    assert bag.import_errors == {}
    return bag.dags["icechunk_all"]


def test_the_page_is_written_whatever_became_of_the_runs(dag: DAG) -> None:
    assert dag.get_task("save_summary").trigger_rule == "all_done"
    assert dag.get_task("save_summary").upstream_task_ids >= {"collect_repository", "choose_repositories"}
    assert [outlet.name for outlet in dag.get_task("save_summary").outlets] == ["dredge_icechunk_all"]


def test_a_repository_that_failed_makes_the_run_fail(dag: DAG) -> None:
    last = dag.get_task("all_collected")
    assert last.upstream_task_ids == {"collect_repository", "save_summary"}
    assert last.trigger_rule == "none_failed"
    assert [task.task_id for task in dag.tasks if not task.downstream_task_ids] == ["all_collected"]


def test_each_repository_has_a_row_of_its_own_and_so_many_are_collected_at_once(dag: DAG) -> None:
    from airflow_dredge.dags.icechunk_all import icechunk_all_dag

    def at_once(found: DAG) -> Any:
        task: Any = found.get_task("collect_repository")
        return task.is_mapped, task.partial_kwargs["max_active_tis_per_dag"]

    assert at_once(dag) == (True, 4)
    assert at_once(icechunk_all_dag("ice_nightly", "@daily", at_once=8, dry_run=False)) == (True, 8)


def test_icechunk_expiration_lets_as_many_repositories_be_collected_at_once() -> None:
    from airflow_dredge.dags.icechunk_expiration import icechunk_dag

    assert icechunk_dag("by_hand").max_active_runs >= 32
    assert icechunk_dag("scheduled", "@daily", storage="s3://lake/weather").max_active_runs == 1


def test_params_are_those_of_one_repository_and_which_ones(dag: DAG) -> None:
    from airflow_dredge.dags.icechunk_expiration import icechunk_dag

    one = set(icechunk_dag("one").params)
    assert set(dag.params) == one - {"storage"} | {"storages", "leave_out", "summary_root"}
    assert dag.params["dry_run"] is True
    assert dag.params["storages"] is None


def test_a_schedule_starts_only_when_somebody_switches_it_on() -> None:
    from airflow_dredge.dags.icechunk_all import icechunk_all_dag

    scheduled = icechunk_all_dag("ice_nightly", "@daily", dry_run=False, storages="s3://lake/*")
    assert scheduled.is_paused_upon_creation is True
    assert (scheduled.params["dry_run"], scheduled.params["storages"]) == (False, "s3://lake/*")


def test_tasks_are_tried_again_by_family_and_explain_themselves(dag: DAG) -> None:
    for task in dag.tasks:
        assert task.retries >= 2
        assert task.retry_policy is not None
    for name in ("choose_repositories", "save_summary"):
        assert type(dag.get_task(name)).__module__ == "airflow_dredge.operators.icechunk.many"
        assert [
            field for field in dag.get_task(name).template_fields if not hasattr(dag.get_task(name), field)
        ] == []
    assert dag.doc_md


def test_dag_survives_serialisation(dag: DAG) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    back = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(back.task_ids) == set(dag.task_ids)
    assert back.get_task("collect_repository").max_active_tis_per_dag == 4
