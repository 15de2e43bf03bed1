"""Trash in lakeFS's key-value store: find it, and remove rows that an earlier run found and that have waited since.

The first run removes nothing; from the second run on, a day later, trash can be removed. A dry run (the default)
only lists it. With `check_only` the task `check` lists missing permissions and other obstacles, and there is no run.
For a schedule, write a DAG file with `trash_dag("trash_daily", "@daily", state_uri="s3://ops/trash", dry_run=False)`.
docs/trash.md has the rules, and the reasons why removing is safe beside a running server.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.airflow_versions import allowed_run_types
from airflow_dredge.operators.kv.params import FORM, TRASH_DEFAULTS, trash_params
from airflow_dredge.operators.kv.trash import (
    LakeFSKVCheckTrashOperator,
    LakeFSKVCleanTrashOperator,
    LakeFSKVScanTrashOperator,
)
from airflow_dredge.operators.params import share_params
from airflow_dredge.operators.run_check import task_arguments
from airflow_dredge.operators.schedules import NO_BACKFILLS


def trash_dag(
    dag_id: str,
    schedule: str | None = None,
    default_args: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> DAG:
    """Make the DAG; `defaults` are values of its Params, `default_args` are for its tasks, as `{"pool": "gc"}`."""
    with DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        **allowed_run_types(NO_BACKFILLS),
        default_args=task_arguments(FORM, TRASH_DEFAULTS, default_args),
        params=trash_params(**defaults),
        tags=["dredge", "lakefs", "kv trash"],
        doc_md=__doc__,
    ) as dag:
        chain(
            LakeFSKVCheckTrashOperator(task_id="check"),
            LakeFSKVScanTrashOperator(task_id="scan"),
            LakeFSKVCleanTrashOperator(
                task_id="clean",
                planned="{{ (ti.xcom_pull(task_ids='scan') or {}).get('run_id', '') }}",
                planned_digest="{{ (ti.xcom_pull(task_ids='scan') or {}).get('digest', '') }}",
                outlets=[Asset("dredge_kv_trash_cleaner")],
            ),
        )
    return share_params(dag)


kv_trash_cleaner = trash_dag("kv_trash_cleaner")
