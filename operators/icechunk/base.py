"""Base classes of the Icechunk operators: repository, store, run, Spark job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options, tasks_environment
from airflow_dredge.operators.reporting import Lineage, LineageMixin, report_metrics
from airflow_dredge.operators.spark import SparkJobOperator
from dredge.errors import ConfigError
from dredge.runs.payload import StepSummary
from dredge.storage import StorageOptions

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.icechunk.collection.steps import Run


class IcechunkOperator(BaseOperator):
    """Work on an Icechunk repository.

    :param storage: URI of the repository (templated)
    :param aws_conn_id: connection of the object store; None, or a missing ``aws_default``, for local folders
        and machine roles
    """

    template_fields: Sequence[str] = ("storage",)

    def __init__(self, *, storage: str, aws_conn_id: str | None = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.storage = storage
        self.aws_conn_id = aws_conn_id

    @property
    def options(self) -> StorageOptions:
        """Options for access to the store."""
        return storage_options(self.aws_conn_id)


def open_run(run_uri: str, aws_conn_id: str | None) -> Run:
    """Open a run with the connection's store."""
    # Imported by tasks of a run only: each task of each DAG imports all operators.
    from dredge.icechunk.collection.steps import Run

    if not run_uri:
        raise ConfigError("this run has no plan: see the log of the failed task. Nothing was changed.")
    return Run.open(run_uri, storage_options(aws_conn_id))


def need_plan(plan: Any) -> Mapping[str, Any]:
    """Return the XCom of a plan task."""
    if not isinstance(plan, Mapping):
        raise ConfigError("there is no plan: see the log of the failed task. Nothing was changed.")
    return plan


class IcechunkSparkOperator(LineageMixin, SparkJobOperator):
    """Run some steps of a planned collection, on Spark or in the worker.

    :param plan: XCom of the plan task (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "plan")

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**{"run_uri": "", **kwargs})
        self.plan = plan

    @abstractmethod
    def work(self, run: Run) -> StepSummary:
        """Run the steps in the worker."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Run the steps, and return the counts of the last step."""
        planned = need_plan(self.plan)
        self.run_uri = planned["run_uri"]
        if not self.run_uri:
            raise AirflowSkipException("the Param collect is off")
        run = open_run(self.run_uri, self.aws_conn_id)
        if planned["mode"] == "local":
            with tasks_environment(run.options):
                summary = self.work(run)
        else:
            summary = self.run_job(run)
        self.lineage = Lineage(run.plan.uri, run.plan.uri, run.plan.run_id, dict(summary.counts))
        return report_metrics(self.step, summary, run.plan.uri)
