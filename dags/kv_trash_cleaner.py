"""Trash in lakeFS's key-value store: find it, and remove what an earlier run found and what has waited since.

The first run removes nothing. From the second on, a day later, trash can be removed; a dry run (the default)
says what would go. With `check_only` there is no run: the task `check` says what one would lack. For a schedule, make
a DAG file of your own with `trash_dag("trash_daily", "@daily", state_uri="s3://ops/trash", dry_run=False)`. What is
trash, and why removing it is safe beside a live server, is in docs/trash.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.airflow_versions import allowed_run_types
from airflow_dredge.operators.kv.check import LakeFSKVCheckTrashOperator
from airflow_dredge.operators.kv.clean import LakeFSKVCleanTrashOperator
from airflow_dredge.operators.kv.params import FORM, TRASH_DEFAULTS, trash_params
from airflow_dredge.operators.kv.scan import LakeFSKVScanTrashOperator
from airflow_dredge.operators.run_check import checked_tasks


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
        **allowed_run_types(["manual", "scheduled", "operator_triggered", "asset_triggered"]),  # no backfills
        default_args=checked_tasks(FORM, TRASH_DEFAULTS, default_args),
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
    return dag


kv_trash_cleaner = trash_dag("kv_trash_cleaner")
