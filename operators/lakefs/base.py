"""Base classes of the lakeFS operators: server, store, run, Spark job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options, tasks_environment
from airflow_dredge.operators.reporting import LineageMixin, of_step, report_metrics
from airflow_dredge.operators.spark import PlannedRun, SparkJobOperator
from dredge.errors import ConfigError
from dredge.gc import steps
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.gc.steps import Run


class ReachesLakeFS:
    """An operator that speaks to a lakeFS server and to its object store."""

    lakefs_conn_id: str
    aws_conn_id: str | None

    @cached_property
    def hook(self) -> LakeFSHook:
        """The lakeFS hook."""
        return LakeFSHook(self.lakefs_conn_id)

    def open_run(self, run_uri: str) -> Run:
        """Open a run, with the server and the stores that the connections describe.

        :param run_uri: folder of the run; empty when there is no plan
        :raises ConfigError: there is no such run
        """
        if not run_uri:
            raise ConfigError(
                "this run has no plan, because an earlier task failed; see its log. Nothing was done."
            )
        return steps.Run.open(run_uri, storage_options(self.aws_conn_id), self.hook.client)


class LakeFSOperator(ReachesLakeFS, BaseOperator):
    """Work on a lakeFS repository and its object store.

    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    def __init__(
        self,
        *,
        lakefs_conn_id: str = LakeFSHook.default_conn_name,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id
        self.aws_conn_id = aws_conn_id


class LakeFSRunOperator(LineageMixin, LakeFSOperator):
    """Do one step of a planned run in the Airflow worker itself.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    """

    step: ClassVar[str]
    template_fields: Sequence[str] = ("run_uri",)

    def __init__(self, *, run_uri: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri

    @abstractmethod
    def work(self, run: Run) -> StepSummary:
        """Do the step."""

    def variables(self) -> dict[str, str]:
        """Return what else the step reads from its environment, secrets included."""
        return {}

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Do the step and return its figures."""
        run = self.open_run(self.run_uri)
        with tasks_environment(run, self.variables()):
            summary = self.work(run)
        self.lineage = of_step(run.plan.namespace, run.plan.repository, run.plan.run_id, summary)
        return report_metrics(self.step, summary, run.plan.repository)


class LakeFSSparkOperator(LineageMixin, ReachesLakeFS, SparkJobOperator):
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


class LakeFSKVSparkOperator(LakeFSSparkOperator):
    """A distributed step that also reads the key-value store where the plan says so.

    :param kv_conn_id: connection of lakeFS's key-value store, the same as the plan step's (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    template_fields: Sequence[str] = (*LakeFSSparkOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return what lets the job reach the server, the object store and the key-value store."""
        return super().secrets(run) | kv_env(self.kv_conn_id)
