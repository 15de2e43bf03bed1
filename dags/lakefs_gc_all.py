"""Garbage collection of all lakeFS repositories of a server, or of those that match some globs.

Each repository has a run of `lakefs_gc` of its own, at most four at once; this DAG starts them, waits without a worker
slot, and writes one page about all. Repositories that the Variable `dredge_gc_schedules` names have the settings from
there. One that fails stops no other; one on which another collector works is left out, and the page says why. A dry
run (the default) deletes nothing. For a schedule, make a DAG file of your own with
`gc_all_dag("gc_nightly", "@daily", at_once=8, dry_run=False)`.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.lakefs.choose_repositories import LakeFSChooseRepositoriesOperator
from airflow_dredge.operators.lakefs.collect_repository import LakeFSCollectRepositoryOperator
from airflow_dredge.operators.lakefs.params import ALL_DEFAULTS, WHICH, gc_all_params
from airflow_dredge.operators.lakefs.save_summary import LakeFSSaveSummaryOperator


def gc_all_dag(dag_id: str, schedule: str | None = None, at_once: int = 4, **defaults: Any) -> DAG:
    """Make the DAG: at most `at_once` repositories are collected at a time; `defaults` are values of its Params."""
    with DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        is_paused_upon_creation=None if schedule is None else True,
        allowed_run_types=["manual", "scheduled", "operator_triggered", "asset_triggered"],  # no backfills
        default_args=ALL_DEFAULTS,
        params=gc_all_params(**defaults),
        tags=["dredge", "lakefs", "garbage collection"],
        doc_md=__doc__,
    ) as dag:
        chosen = LakeFSChooseRepositoriesOperator(task_id="choose_repositories", which=WHICH)
        chain(
            LakeFSCollectRepositoryOperator.partial(
                task_id="collect_repository",
                max_active_tis_per_dag=at_once,  # also counts those that wait in the triggerer
                map_index_template="{{ task.conf['repository'] }}",
            ).expand_kwargs(chosen.output),
            LakeFSSaveSummaryOperator(
                task_id="save_summary",
                runs=chosen.output,
                trigger_rule="all_done",
                outlets=[Asset("dredge_lakefs_gc_all")],
            ),
            # The page is written whatever happened; this one decides about the run.
            complete := EmptyOperator(task_id="all_collected", trigger_rule="none_failed"),
        )
        dag.get_task("collect_repository") >> complete
    return dag


lakefs_gc_all = gc_all_dag("lakefs_gc_all")
