"""The steps of a lakeFS collection that run on Spark."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from operators.failures import reported
from operators.hooks.lakefs import LakeFSHook
from operators.lakefs.base import open_run
from operators.metrics import report_metrics
from operators.spark import PlannedRun, SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSSparkOperator(SparkJobOperator):
    """Do one step of a planned lakeFS collection on Spark, and return its figures.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server

    Further parameters are those of ``SparkJobOperator``.
    """

    def __init__(self, *, lakefs_conn_id: str = LakeFSHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id

    @cached_property
    def hook(self) -> LakeFSHook:
        """The lakeFS hook."""
        return LakeFSHook(self.lakefs_conn_id)

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job and return the figures of its step."""
        run = open_run(self.run_uri, self.aws_conn_id, self.hook)
        return report_metrics(self.step, self.run_job(context, run), run.plan.repository)

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables that let the job reach the lakeFS server and the object store."""
        return self.hook.env() | super().secrets(run)
