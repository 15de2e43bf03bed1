"""Restore deletions of a collection, and purge old ones.

`lakefs_gc_restore` restores objects that a run of `lakefs_gc` deleted: the same bytes under the same keys. Existing
objects are never replaced, and restored ones are pinned for `keep_days`. `lakefs_gc_purge` permanently deletes old
copies and versions of deleted objects; a dry run (the default) lists them. For a schedule, write a DAG file with
`purge_dag("purge_lake", "@weekly", repository="lake", dry_run=False)`.
"""

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.dag_factory import RESTORES, About, one_task_dag
from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.lakefs.params import PURGE_FORM, RESTORE_FORM
from airflow_dredge.operators.params import templates
from airflow_dredge.operators.undo import LakeFSPurgeOperator, LakeFSRestoreOperator

_ABOUT = About(doc=__doc__, tags=["dredge", "lakefs", "garbage collection"], default_args=RETRIES)


def purge_dag(dag_id: str, schedule: str | None = None, **defaults: Any) -> DAG:
    """Make the DAG of a purge; `defaults` are values of its Params."""
    return one_task_dag(
        dag_id,
        lambda: LakeFSPurgeOperator(task_id="purge", config=templates(PURGE_FORM)),
        PURGE_FORM,
        _ABOUT,
        schedule,
        **defaults,
    )


lakefs_gc_restore = one_task_dag(
    "lakefs_gc_restore",
    lambda: LakeFSRestoreOperator(task_id="restore", config=templates(RESTORE_FORM)),
    RESTORE_FORM,
    _ABOUT,
    run_types=RESTORES,
)
lakefs_gc_purge = purge_dag("lakefs_gc_purge")
