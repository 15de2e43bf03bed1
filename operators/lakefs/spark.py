"""The steps of a lakeFS collection that run on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.lakefs.base import ReachesLakeFS
from airflow_dredge.operators.lineage import of_step
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.metrics import report_metrics
from airflow_dredge.operators.spark import PlannedRun, SparkJobOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.gc.steps import Run


class LakeFSSparkOperator(TellsLineage, ReachesLakeFS, SparkJobOperator):
    """Do one step of a planned lakeFS collection on Spark, and return its figures.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param spark_rows_min: a step that is known to work on fewer objects is done in the Airflow worker, without Spark
        (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "spark_rows_min")

    def __init__(
        self,
        *,
        lakefs_conn_id: str = LakeFSHook.default_conn_name,
        spark_rows_min: int | str = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id
        self.spark_rows_min = spark_rows_min

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job and return the figures of its step."""
        run = self.open_run(self.run_uri)
        summary = self._do_here(run) if self._is_small(run) else self.run_job(run)
        self.lineage = of_step(run.plan.namespace, run.plan.repository, run.plan.run_id, summary)
        return report_metrics(self.step, summary, run.plan.repository)

    def _is_small(self, run: Run) -> bool:
        """Say whether the step takes less than a start of Spark."""
        rows_min = int(self.spark_rows_min)
        rows = steps.rows_of(run, self.step) if rows_min else None
        if rows is None or rows >= rows_min:
            return False
        self.log.info(
            "Step %s works on about %s objects, fewer than spark_rows_min (%s): it is done here, without Spark",
            self.step,
            f"{rows:,}",
            f"{rows_min:,}",
        )
        return True

    def _do_here(self, run: Run) -> StepSummary:
        with tasks_environment(run, self.secrets(run)):
            summary: StepSummary = getattr(steps, self.step)(run, LocalRunner())
        return summary

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables that let the job reach the lakeFS server and the object store."""
        return self.hook.env() | super().secrets(run)
