"""Expiration and collection of many Icechunk repositories.

Each repository has a run of `icechunk_expiration` of its own, at most four at once; this DAG starts them, waits without
a worker slot, and writes one page about all. Repositories that the Variable `dredge_icechunk_schedules` names have the
settings from there. One that fails stops no other. A dry run (the default) changes and deletes nothing. For a schedule,
make a DAG file of your own with `icechunk_all_dag("ice_nightly", "@daily", at_once=8, storages="s3://lake/*")`.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.icechunk.many import (
    IcechunkChooseRepositoriesOperator,
    IcechunkCollectRepositoryOperator,
    IcechunkSaveSummaryOperator,
)
from airflow_dredge.operators.icechunk.params import ALL_FORM, UNDO_DEFAULTS, WHICH
from airflow_dredge.operators.params import params_of


def icechunk_all_dag(dag_id: str, schedule: str | None = None, at_once: int = 4, **defaults: Any) -> DAG:
    """Make the DAG: at most `at_once` repositories are collected at a time; `defaults` are values of its Params."""
    with DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        is_paused_upon_creation=None if schedule is None else True,
        allowed_run_types=["manual", "scheduled", "operator_triggered", "asset_triggered"],  # no backfills
        default_args=UNDO_DEFAULTS,
        params=params_of(ALL_FORM, defaults),
        tags=["dredge", "icechunk", "garbage collection"],
        doc_md=__doc__,
    ) as dag:
        chosen = IcechunkChooseRepositoriesOperator(task_id="choose_repositories", which=WHICH)
        chain(
            IcechunkCollectRepositoryOperator.partial(
                task_id="collect_repository",
                max_active_tis_per_dag=at_once,  # also counts those that wait in the triggerer
                map_index_template="{{ task.conf['storage'] }}",
            ).expand_kwargs(chosen.output),
            IcechunkSaveSummaryOperator(
                task_id="save_summary",
                runs=chosen.output,
                trigger_rule="all_done",
                outlets=[Asset("dredge_icechunk_all")],
            ),
            # The page is written whatever happened; this one decides about the run.
            complete := EmptyOperator(task_id="all_collected", trigger_rule="none_failed"),
        )
        dag.get_task("collect_repository") >> complete
    return dag


icechunk_all = icechunk_all_dag("icechunk_all")
