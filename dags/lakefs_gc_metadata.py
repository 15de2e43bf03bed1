"""Range and metarange files without a commit, left by failed commits, merges and imports.

Each run finds them, and first restores files with a new commit. With `metadata = delete` it deletes files that an
earlier run found, after the grace: only in a bucket with versions, and with lakeFS's key-value store (`kv_conn_id`),
because it has every commit. A dry run (the default) only finds them. For a schedule, write a DAG file with
`metadata_dag("metadata_lake", "@daily", repository="lake", kv_conn_id="lakefs_db", metadata="delete", dry_run=False)`.
"""

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.dag_factory import About, one_task_dag
from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.lakefs.params import METADATA, METADATA_FORM
from airflow_dredge.operators.params import templates
from airflow_dredge.operators.undo import LakeFSMetadataOperator

_ABOUT = About(doc=__doc__, tags=["dredge", "lakefs", "garbage collection"], default_args=RETRIES)


def metadata_dag(dag_id: str, schedule: str | None = None, **settings: Any) -> DAG:
    """Make the DAG; `settings` are values of its Params, and `default_args` for its task, as `{"pool": "gc"}`."""
    return one_task_dag(
        dag_id,
        lambda: LakeFSMetadataOperator(
            task_id="metadata", config=templates(METADATA), kv_conn_id="{{ params.kv_conn_id }}"
        ),
        METADATA_FORM,
        _ABOUT,
        schedule,
        **settings,
    )


lakefs_gc_metadata = metadata_dag("lakefs_gc_metadata")
