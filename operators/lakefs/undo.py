"""What the tasks share that take deletions back and that make them final."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.metrics import report_metrics
from dredge.process import environment
from dredge.runs.summary import StepSummary
from dredge.storage import environment_of_child

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.lakefs import LakeFS
    from dredge.storage import StorageOptions


class LakeFSUndoOperator(LakeFSOperator):
    """Do a run beside collections in the Airflow worker: the store moves the bytes.

    It holds the repository's lease; while a collection has it, the task fails and says so. A try that died gives it to
    the next one.

    :param config: settings by name; docs/settings.md lists them (templated)
    """

    step: ClassVar[str]
    template_fields: Sequence[str] = ("config",)

    def __init__(self, *, config: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    @abstractmethod
    def work(self, holder: str, client: LakeFS, options: StorageOptions | None) -> StepSummary:
        """Do the run."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Do the run and return its figures."""
        options = storage_options(self.aws_conn_id)
        holder = f"{self.dag_id} {context['run_id']}"
        with environment(environment_of_child(options)):
            summary = self.work(holder, self.hook.client, options)
        for warning in summary.warnings:
            self.log.warning("%s", warning)
        return report_metrics(self.step, summary, str(self.config["repository"]))
