"""DAGs about many repositories, and those with one task."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_dredge.operators.dag_factory import About, Many, many_dag, one_task_dag
from airflow_dredge.operators.lakefs.many import (
    LakeFSChooseRepositoriesOperator,
    LakeFSCollectRepositoryOperator,
    LakeFSSaveSummaryOperator,
)
from airflow_dredge.operators.lakefs.params import ALL_FORM, PURGE_FORM, WHICH

ABOUT = About(doc="words", tags=["lakefs"], default_args={"retries": 3})
MANY = Many(
    choose=LakeFSChooseRepositoriesOperator,
    collect=LakeFSCollectRepositoryOperator,
    summary=LakeFSSaveSummaryOperator,
    which=WHICH,
    asset="dredge_lakefs_gc_all",
)


def all_dag(schedule: str | None = None, **settings: Any) -> DAG:
    return many_dag("all", MANY, ALL_FORM, ABOUT, schedule, **settings)


def run_types(dag: DAG) -> set[str]:
    return {str(getattr(kind, "value", kind)) for kind in dag.allowed_run_types or ()}


def test_each_chosen_repository_is_collected_by_a_run_of_its_own_a_few_at_a_time() -> None:
    dag = all_dag(at_once=3, dry_run=False)
    assert set(dag.task_ids) == {"choose_repositories", "collect_repository", "save_summary", "all_collected"}
    choose, collect = dag.get_task("choose_repositories"), dag.get_task("collect_repository")
    assert choose.which == WHICH
    assert collect.is_mapped
    assert collect.upstream_task_ids == {"choose_repositories"}
    assert collect.partial_kwargs["max_active_tis_per_dag"] == 3
    assert collect.partial_kwargs["map_index_template"] == "{{ task.label }}"
    assert (dag.max_active_runs, dag.params["dry_run"], choose.retries) == (1, False, 3)


def test_a_dag_with_a_schedule_waits_until_somebody_switches_it_on_and_has_no_backfills() -> None:
    by_hand, daily = all_dag(), all_dag("@daily")
    assert (by_hand.is_paused_upon_creation, daily.is_paused_upon_creation) == (None, True)
    for dag in (by_hand, daily):
        assert "backfill" not in run_types(dag)
        assert {"manual", "scheduled"} <= run_types(dag)


def test_every_task_has_the_pool_that_its_dag_was_made_with() -> None:
    def pools(dag: DAG) -> set[str]:
        return {task.pool for task in dag.tasks}

    def task() -> None:
        EmptyOperator(task_id="purge")

    own = {"pool": "gc"}
    assert pools(all_dag(default_args=own)) == {"gc"}
    assert pools(one_task_dag("purge", task, PURGE_FORM, ABOUT, default_args=own)) == {"gc"}
