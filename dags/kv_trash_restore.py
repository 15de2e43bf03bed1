"""Restore rows that a run of the trash cleaner removed from lakeFS's key-value store.

The rows come from the run's undo files in the state folder; existing keys are not changed. A dry run (the default)
only counts.
"""

from airflow_dredge.operators.dag_factory import RESTORES, About, one_task_dag
from airflow_dredge.operators.kv.params import RESTORE_DEFAULTS, RESTORE_FORM
from airflow_dredge.operators.kv.trash import LakeFSKVRestoreTrashOperator

kv_trash_restore = one_task_dag(
    "kv_trash_restore",
    lambda: LakeFSKVRestoreTrashOperator(task_id="restore"),
    RESTORE_FORM,
    About(doc=__doc__, tags=["dredge", "lakefs", "kv trash"], default_args=RESTORE_DEFAULTS),
    run_types=RESTORES,
)
