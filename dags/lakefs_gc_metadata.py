"""Range and metarange files without a commit, which failed commits, merges and imports leave.

Each run finds them, and first restores files that a commit refers to now. With `metadata = delete` it deletes files
that an earlier run found and that have waited for the grace since: only in a bucket with versions, and with lakeFS's
key-value store (`kv_conn_id`), which has every commit. A dry run (the default) only finds them. For a schedule, write a
DAG file with
`metadata_dag("metadata_lake", "@daily", repository="lake", kv_conn_id="lakefs_db", metadata="delete", dry_run=False)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.airflow_versions import allowed_run_types
from airflow_dredge.operators.lakefs.params import METADATA, METADATA_FORM, UNDO_DEFAULTS
from airflow_dredge.operators.lakefs.undo import LakeFSMetadataOperator
from airflow_dredge.operators.params import params_of, templates
from airflow_dredge.operators.run_check import checked_tasks


def metadata_dag(
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
        default_args=checked_tasks(METADATA_FORM, UNDO_DEFAULTS, default_args),
        params=params_of(METADATA_FORM, defaults),
        tags=["dredge", "lakefs", "garbage collection"],
        doc_md=__doc__,
    ) as dag:
        LakeFSMetadataOperator(
            task_id="metadata", config=templates(METADATA), kv_conn_id="{{ params.kv_conn_id }}"
        )
    return dag


lakefs_gc_metadata = metadata_dag("lakefs_gc_metadata")
