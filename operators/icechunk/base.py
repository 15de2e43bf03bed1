"""Base classes of the Icechunk operators: repository, store, run, Spark job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options, tasks_environment
from airflow_dredge.operators.reporting import LineageMixin, of_step, report_metrics
from airflow_dredge.operators.spark import SparkJobOperator
from dredge.errors import ConfigError
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.runs.summary import StepSummary
from dredge.storage import StorageOptions

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.icechunk.collection.steps import Run


class IcechunkOperator(BaseOperator):
    """Work on an Icechunk repository.

    :param storage: URI of the repository (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage",)

    def __init__(self, *, storage: str, aws_conn_id: str | None = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.storage = storage
        self.aws_conn_id = aws_conn_id

    @property
    def options(self) -> StorageOptions:
        """How the connection reaches the store."""
        return storage_options(self.aws_conn_id)


def granted(value: Any) -> LeaseGrant | None:
    """Return the lease that an acquire task returned, None when there is none."""
    return from_json(LeaseGrant, value) if isinstance(value, Mapping) else None


def open_run(run_uri: str, aws_conn_id: str | None) -> Run:
    """Open a collection, with the store that the connection describes.

    :param run_uri: folder of the run; empty when there is no plan
    :param aws_conn_id: connection of the object store
    :raises ConfigError: there is no such run
    """
    # Loaded by a task that works on a run: every task of every DAG reads the files of all operators.
    from dredge.icechunk.collection.steps import Run

    if not run_uri:
        raise ConfigError(
            "this run has no plan, because an earlier task failed; see its log. Nothing was done."
        )
    return Run.open(run_uri, storage_options(aws_conn_id))


class IcechunkSparkOperator(LineageMixin, SparkJobOperator):
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
