"""Restore rows that a run of the trash cleaner removed from lakeFS's key-value store.

The rows come from the run's undo files in the state folder; existing keys are not changed. A dry run (the default)
only counts.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_dredge.operators.airflow_versions import allowed_run_types
from airflow_dredge.operators.kv.params import RESTORE_DEFAULTS, RESTORE_FORM
from airflow_dredge.operators.kv.trash import LakeFSKVRestoreTrashOperator
from airflow_dredge.operators.params import params_of
from airflow_dredge.operators.run_check import checked_tasks

with DAG(
    "kv_trash_restore",
    schedule=None,
    max_active_runs=1,
    **allowed_run_types(["manual", "operator_triggered"]),
    default_args=checked_tasks(RESTORE_FORM, RESTORE_DEFAULTS),
    params=params_of(RESTORE_FORM, {}),
    tags=["dredge", "lakefs", "kv trash"],
    doc_md=__doc__,
) as kv_trash_restore:
    LakeFSKVRestoreTrashOperator(task_id="restore")
