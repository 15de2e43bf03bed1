"""The steps of an Icechunk collection that run on Spark, or in the Airflow worker."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.icechunk.base import open_run
from airflow_dredge.operators.lineage import of_step
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.metrics import report_metrics
from airflow_dredge.operators.spark import SparkJobOperator
from dredge.errors import ConfigError
from dredge.runs.summary import StepSummary

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.icechunk.collection.steps import Run


class IcechunkSparkOperator(TellsLineage, SparkJobOperator):
    """Do some steps of a planned collection: on Spark, or in this worker.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "plan")

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**{"run_uri": "", **kwargs})
        self.plan = plan

    @abstractmethod
    def work(self, run: Run) -> StepSummary:
        """Do the steps in this worker."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Do the steps, and return the figures of the last one."""
        if not isinstance(self.plan, Mapping):
            raise ConfigError(
                "there is no plan, because an earlier task failed; see its log. Nothing was done."
            )
        self.run_uri = self.plan["run_uri"]
        if not self.run_uri:
            raise AirflowSkipException("nobody asked for a collection")
        run = open_run(self.run_uri, self.aws_conn_id)
        if self.plan["mode"] == "local":
            with tasks_environment(run):
                summary = self.work(run)
        else:
            summary = self.run_job(run)
        self.lineage = of_step(run.plan.uri, run.plan.uri, run.plan.run_id, summary)
        return report_metrics(self.step, summary, run.plan.uri)
