"""Restore deletions of an Icechunk collection, and purge old ones.

`icechunk_restore` restores objects that a run of `icechunk_expiration` deleted: the same bytes under the same keys.
Existing objects are never replaced, and restored ones are pinned for `keep_days`. `icechunk_purge` permanently deletes
old copies and versions of deleted objects; a dry run (the default) lists them. For a schedule, write a DAG file with
`purge_dag("purge_weather", "@weekly", storage="s3://lake/weather", dry_run=False)`.
"""

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.dag_factory import RESTORES, About, one_task_dag
from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.icechunk.params import PURGE_FORM, RESTORE_FORM
from airflow_dredge.operators.params import templates
from airflow_dredge.operators.undo import IcechunkPurgeOperator, IcechunkRestoreOperator

_ABOUT = About(doc=__doc__, tags=["dredge", "icechunk", "garbage collection"], default_args=RETRIES)


def purge_dag(dag_id: str, schedule: str | None = None, **defaults: Any) -> DAG:
    """Make the DAG of a purge; `defaults` are values of its Params."""
    return one_task_dag(
        dag_id,
        lambda: IcechunkPurgeOperator(task_id="purge", config=templates(PURGE_FORM)),
        PURGE_FORM,
        _ABOUT,
        schedule,
        **defaults,
    )


icechunk_restore = one_task_dag(
    "icechunk_restore",
    lambda: IcechunkRestoreOperator(task_id="restore", config=templates(RESTORE_FORM)),
    RESTORE_FORM,
    _ABOUT,
    run_types=RESTORES,
)
icechunk_purge = purge_dag("icechunk_purge")
