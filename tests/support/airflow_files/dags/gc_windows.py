"""The collection for a live scheduler: one DAG on a schedule, `lakefs_gc` itself for manual runs, and `lakefs_gc_all`.

Spark steps run the same step in the task's process. DREDGE_TEST_FAIL is a file with a text; a run with it in the run
id is stopped in its subtract step.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from airflow.sdk import get_current_context

from airflow_dredge.dags.lakefs_gc import gc_dag, lakefs_gc
from airflow_dredge.dags.lakefs_gc_all import gc_all_dag
from airflow_dredge.operators.lakefs.base import LakeFSSparkOperator
from dredge.errors import RefusedError
from dredge.gc import steps
from dredge.runs.tasks import LocalRunner


def _in_this_process(operator: LakeFSSparkOperator, secrets: Mapping[str, str]) -> None:
    marker = Path(os.environ["DREDGE_TEST_FAIL"])
    if (
        operator.step == "subtract"
        and marker.exists()
        and marker.read_text() in get_current_context()["run_id"]
    ):
        raise RefusedError("stopped for the test")
    os.environ.update(secrets)
    getattr(steps, operator.step)(steps.Run.open(operator.run_uri), LocalRunner())


LakeFSSparkOperator.submit = _in_this_process  # type: ignore[method-assign]

gc_windows = gc_dag(
    "gc_windows",
    "@daily",
    repository="lake",
    dry_run=False,
    unsafe_min_age_seconds=1,
    unsafe_grace_seconds=0,
    max_delete_percent=None,
    spark_rows_min=0,  # a step that needs no Spark would not pass by `_in_this_process`
    slice_margin_hours=26,
)
lakefs_gc_all = gc_all_dag("lakefs_gc_all", at_once=2)
lakefs_gc_all.get_task("collect_repository").partial_kwargs["poke_interval"] = 2  # type: ignore[attr-defined]
for dag in (gc_windows, lakefs_gc):
    # A task's process lives some seconds longer than the task. A look before its end counts as a failure of
    # the task and costs a retry.
    dag.get_task("acquire_lease").poke_interval = 12.0
    dag.get_task("acquire_lease").retry_delay = timedelta(seconds=5)
