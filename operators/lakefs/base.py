"""What the operators of a lakeFS collection share: the server, the run, its figures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lineage import of_step
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.metrics import report_metrics
from dredge.errors import ConfigError
from dredge.gc import steps
from dredge.runs.summary import StepSummary

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


class LakeFSRunOperator(TellsLineage, LakeFSOperator):
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
