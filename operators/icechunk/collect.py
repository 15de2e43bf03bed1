"""The step that deletes what nothing reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lineage import of_step
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.metrics import report_metrics
from airflow_dredge.operators.spark import PlannedRun, SparkJobOperator
from dredge.errors import ConfigError
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkCollectOperator(TellsLineage, SparkJobOperator):
    """Mark, look for candidates, ask the guards, sweep and verify: on Spark, or in this worker.

    The only task that deletes. Killed or failed, it goes on where it stopped.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "icechunk_collect"
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "plan")

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**{"run_uri": "", **kwargs})
        self.plan = plan

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return the summary of the sweep, the step of the job that deletes."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput

        return run.folder.read_summary(BulkDeleteOutput.STEP)

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Collect, and return the figures of the sweep."""
        from dredge.icechunk.collection.steps import Run, run_steps

        if not isinstance(self.plan, Mapping):
            raise ConfigError(
                "there is no plan, because an earlier task failed; see its log. Nothing was done."
            )
        self.run_uri = self.plan["run_uri"]
        if not self.run_uri:
            raise AirflowSkipException(
                "nothing is left to collect here: the library did it, or nobody asked for it"
            )
        run = Run.open(self.run_uri, storage_options(self.aws_conn_id))
        if self.plan["mode"] == "local":
            with tasks_environment(run):
                summary = run_steps(run, LocalRunner())
        else:
            summary = self.run_job(context, run)
        self.lineage = of_step(run.plan.uri, run.plan.uri, run.plan.run_id, summary)
        return report_metrics(self.step, summary, run.plan.uri)
