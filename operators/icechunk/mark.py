"""The step that looks for what nothing reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_dredge.operators.icechunk.spark import IcechunkSparkOperator
from airflow_dredge.operators.spark import PlannedRun
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from dredge.icechunk.collection.steps import Run


class IcechunkMarkOperator(IcechunkSparkOperator):
    """Mark what is live, look for candidates, and ask the guards: on Spark, or in this worker. Deletes nothing.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "icechunk_mark"

    def work(self, run: Run) -> StepSummary:
        """Do the steps in this worker."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import find_garbage

        return find_garbage(run, LocalRunner())

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return what the guards found, the last step of the job."""
        from dredge.icechunk.collection.outputs import CheckLimitsOutput

        return run.folder.read_summary(CheckLimitsOutput.STEP)
