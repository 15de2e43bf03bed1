"""The tasks that take deletions of collections back, and that make them final."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.metrics import report_metrics
from dredge.icechunk.collection.config import IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.process import environment
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.storage import environment_of_child

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions


class IcechunkUndoOperator(BaseOperator):
    """Do a run beside collections in the Airflow worker: the store moves the bytes.

    It holds the repository's lease; while a collection has it, the task fails and says so. A try that died gives it to
    the next one.

    :param config: settings by name; docs/settings.md lists them (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step: ClassVar[str]
    template_fields: Sequence[str] = ("config",)

    def __init__(
        self, *, config: Mapping[str, Any], aws_conn_id: str | None = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.aws_conn_id = aws_conn_id

    @abstractmethod
    def work(self, holder: str, options: StorageOptions | None) -> StepSummary:
        """Do the run."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Do the run and return its figures."""
        options = storage_options(self.aws_conn_id)
        with environment(environment_of_child(options)):
            summary = self.work(f"{self.dag_id} {context['run_id']}", options)
        for warning in summary.warnings:
            self.log.warning("%s", warning)
        return report_metrics(self.step, summary, str(self.config["storage"]))


class IcechunkRestoreOperator(IcechunkUndoOperator):
    """Restore objects that a collection deleted, or with `expiration` the history from before an expiration.

    :param config: settings by name, such as ``{"storage": "s3://lake/weather", "run": "g3…", "all": True}``;
        docs/settings.md lists them (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "restore"

    def work(self, holder: str, options: StorageOptions | None) -> StepSummary:
        """Do the restore."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.undo import restore

        return restore(self._settings(), LocalRunner(), holder, options)

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Restore an expiration or deletions, and return the figures."""
        settings = self._settings()
        if not settings.expiration:
            return super().execute(context)
        from dredge.icechunk.expiration.restore import restore_expiration

        options, holder = storage_options(self.aws_conn_id), f"{self.dag_id} {context['run_id']}"
        done = restore_expiration(settings.repository, settings.run, holder, options)
        return {"restored_snapshots": done.snapshots, "restored_refs": list(done.refs)}

    def _settings(self) -> IcechunkRestoreConfig:
        return IcechunkRestoreConfig.from_params(self.config)


class IcechunkPurgeOperator(IcechunkUndoOperator):
    """Delete for good what collections could still bring back, once it is old enough: copies and old versions.

    :param config: settings by name, such as ``{"storage": "s3://lake/weather", "dry_run": False}``; docs/settings.md
        lists them (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "purge"

    def work(self, holder: str, options: StorageOptions | None) -> StepSummary:
        """Do the purge."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.undo import purge

        return purge(IcechunkPurgeConfig.from_params(self.config), LocalRunner(), holder, options)
