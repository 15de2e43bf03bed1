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
from airflow_dredge.operators.reporting import Lineage, LineageMixin, report_metrics
from airflow_dredge.operators.spark import PlannedRun, SparkJobOperator
from dredge.errors import ConfigError
from dredge.gc import steps
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner, TooManyRowsError

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReachesLakeFS:
    """An operator with a lakeFS server and its object store."""

    lakefs_conn_id: str
    aws_conn_id: str | None

    @cached_property
    def hook(self) -> LakeFSHook:
        """The lakeFS hook."""
        return LakeFSHook(self.lakefs_conn_id)

    def open_run(self, run_uri: str) -> steps.Run:
        """Open a run with the server and the stores of the connections."""
        if not run_uri:
            raise ConfigError("this run has no plan: see the log of the failed task. Nothing was changed.")
        return steps.Run.open(run_uri, storage_options(self.aws_conn_id), self.hook.client)


class LakeFSOperator(ReachesLakeFS, BaseOperator):
    """Work on a lakeFS repository and its object store.

    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or a missing ``aws_default``, for local folders
        and machine roles
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


class LakeFSStepMixin(LineageMixin):
    """A task for a step of a planned run."""

    step: ClassVar[str]

    def report(self, run: steps.Run, summary: StepSummary) -> dict[str, Any]:
        """Send the step's lineage and metrics, and return its counts."""
        plan = run.plan
        self.lineage = Lineage(plan.namespace, plan.repository, plan.run_id, dict(summary.counts))
        return report_metrics(self.step, summary, plan.repository)


class LakeFSRunOperator(LakeFSStepMixin, LakeFSOperator):
    """Run one step of a planned run in the Airflow worker.

    :param run_uri: folder of the run, from the plan task (templated)
    """

    template_fields: Sequence[str] = ("run_uri",)

    def __init__(self, *, run_uri: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri

    @abstractmethod
    def work(self, run: steps.Run) -> StepSummary | None:
        """Run the step; None if this run skips it."""

    def variables(self) -> dict[str, str]:
        """Return further environment variables for the step, including secrets."""
        return {}

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Run the step and return its counts."""
        run = self.open_run(self.run_uri)
        with tasks_environment(run.options, self.variables()):
            summary = self.work(run)
        return {} if summary is None else self.report(run, summary)


class LakeFSKVRunOperator(LakeFSRunOperator):
    """Run a step in the worker; the step also reads lakeFS's key-value store.

    :param kv_conn_id: connection of lakeFS's key-value store, as in the plan task (templated)
    """

    template_fields: Sequence[str] = (*LakeFSRunOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def variables(self) -> dict[str, str]:
        """Return the variables of the key-value store."""
        return kv_env(self.kv_conn_id)


def find_few_rows(run: steps.Run, step: str, rows_min: int) -> int | None:
    """Return a step's number of objects if it is below ``spark_rows_min``; else, or if it is unknown, None."""
    rows = steps.rows_of(run, step) if rows_min else None
    return None if rows is None or rows >= rows_min else rows


class LakeFSSparkOperator(LakeFSStepMixin, ReachesLakeFS, SparkJobOperator):
    """Run one step of a planned run on Spark, or in the worker if the step has few objects.

    :param run_uri: folder of the run, from the plan task (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param spark_rows_min: number of objects from which the step runs on Spark (templated)

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
    def execute(self, context: Context) -> dict[str, Any]:
        """Run the step and return its counts."""
        run = self.open_run(self.run_uri)
        try:
            summary = self._run_here(run) if self.is_local(run) else self.run_job(run)
        except TooManyRowsError as found:
            self.log.info("%s: the step runs on Spark", found)
            summary = self.run_job(run)
        return self.report(run, summary)

    def is_local(self, run: steps.Run) -> bool:
        """Return whether the step has so few objects that it runs in the worker, without Spark."""
        rows_min = int(self.spark_rows_min)
        rows = find_few_rows(run, self.step, rows_min)
        if rows is None:
            return False
        self.log.info(
            "Step %s has about %s objects, fewer than spark_rows_min (%s): it runs in the worker, without Spark",
            self.step,
            f"{rows:,}",
            f"{rows_min:,}",
        )
        return True

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables of the lakeFS server and the object store."""
        return self.hook.env() | super().secrets(run)

    def _run_here(self, run: steps.Run) -> StepSummary:
        with tasks_environment(run.options, self.secrets(run)):
            summary: StepSummary = getattr(steps, self.step)(run, LocalRunner(rows_max=self.rows_max))
        return summary

    @property
    def rows_max(self) -> int | None:
        """Number of rows from which the step does not run in the worker after all; None: any number."""
        return None


class LakeFSKVSparkOperator(LakeFSSparkOperator):
    """Run a step on Spark that also reads lakeFS's key-value store if the plan has one.

    :param kv_conn_id: connection of lakeFS's key-value store, as in the plan task (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    template_fields: Sequence[str] = (*LakeFSSparkOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables of the server, the object store and the key-value store."""
        return super().secrets(run) | kv_env(self.kv_conn_id)
