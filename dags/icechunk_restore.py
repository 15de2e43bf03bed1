"""Take deletions of an Icechunk collection back, and make old ones final.

`icechunk_restore` brings back what a run of `icechunk_expiration` deleted: the same bytes under the same keys; what is
there is never replaced, and what came back is kept from the next runs for as long as you say. `icechunk_purge` deletes
for good what could still be brought back and is old enough; a dry run (the default) says what would go. For a schedule,
make a DAG file of your own with `purge_dag("purge_weather", "@weekly", storage="s3://lake/weather", dry_run=False)`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.icechunk.params import PURGE_FORM, RESTORE_FORM, UNDO_DEFAULTS
from airflow_dredge.operators.icechunk.undo import IcechunkPurgeOperator, IcechunkRestoreOperator
from airflow_dredge.operators.params import params_of, templates

_TAGS = ["dredge", "icechunk", "garbage collection"]


def purge_dag(dag_id: str, schedule: str | None = None, **defaults: Any) -> DAG:
    """Make the DAG of a purge; `defaults` are values of its Params."""
    with DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        allowed_run_types=["manual", "scheduled", "operator_triggered", "asset_triggered"],  # no backfills
        default_args=UNDO_DEFAULTS,
        params=params_of(PURGE_FORM, defaults),
        tags=_TAGS,
        doc_md=__doc__,
    ) as dag:
        IcechunkPurgeOperator(task_id="purge", config=templates(PURGE_FORM))
    return dag


with DAG(
    "icechunk_restore",
    schedule=None,
    max_active_runs=1,
    allowed_run_types=["manual", "operator_triggered"],
    default_args=UNDO_DEFAULTS,
    params=params_of(RESTORE_FORM, {}),
    tags=_TAGS,
    doc_md=__doc__,
) as icechunk_restore:
    IcechunkRestoreOperator(task_id="restore", config=templates(RESTORE_FORM))

icechunk_purge = purge_dag("icechunk_purge")
