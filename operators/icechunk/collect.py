"""The step that deletes what nothing reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_dredge.operators.icechunk.spark import IcechunkSparkOperator
from airflow_dredge.operators.spark import PlannedRun
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from dredge.icechunk.collection.steps import Run


class IcechunkCollectOperator(IcechunkSparkOperator):
    """Sweep and verify, after all steps before that are not done: on Spark, or in this worker.

    The only task that deletes. Killed or failed, it goes on where it stopped. Where a person has to be asked it deletes
    nothing before a yes, whatever became of the task that asks.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "icechunk_collect"

    def work(self, run: Run) -> StepSummary:
        """Do the steps in this worker."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import run_steps

        return run_steps(run, LocalRunner())

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return the summary of the sweep, the step of the job that deletes."""
        from dredge.icechunk.collection.outputs import BulkDeleteOutput

        return run.folder.read_summary(BulkDeleteOutput.STEP)
