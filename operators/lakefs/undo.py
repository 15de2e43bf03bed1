"""Restore, purge, and collection of metadata files: one task a DAG."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.reporting import report_metrics
from dredge.gc import steps
from dredge.runs.environment import environment
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner
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


class LakeFSRestoreOperator(LakeFSUndoOperator):
    """Bring back what a run deleted: the same bytes under the same key. What is there is never replaced.

    :param config: settings by name, such as ``{"repository": "lake", "run": "g3…", "all": True}``; docs/settings.md
        lists them (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "restore"

    def work(self, holder: str, client: LakeFS, options: StorageOptions | None) -> StepSummary:
        """Do the restore."""
        return steps.restore(
            steps.RestoreConfig.from_params(self.config), LocalRunner(), holder, client, options
        )


class LakeFSPurgeOperator(LakeFSUndoOperator):
    """Delete for good what runs could still bring back, once it is old enough: copies and old versions.

    :param config: settings by name, such as ``{"repository": "lake", "dry_run": False}``; docs/settings.md lists them
        (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "purge"

    def work(self, holder: str, client: LakeFS, options: StorageOptions | None) -> StepSummary:
        """Do the purge."""
        return steps.purge(steps.PurgeConfig.from_params(self.config), LocalRunner(), holder, client, options)


class LakeFSMetadataOperator(LakeFSUndoOperator):
    """Find which range and metarange files no commit names, put back what one has come to name, and let those go that
    have waited, where that is asked for.

    :param config: settings by name, such as ``{"repository": "lake", "metadata": "report"}``; docs/settings.md lists
        them (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, which alone knows every commit (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "metadata"
    template_fields: Sequence[str] = (*LakeFSUndoOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def work(self, holder: str, client: LakeFS, options: StorageOptions | None) -> StepSummary:
        """Do the run."""
        config = steps.MetadataConfig.from_params(self.config)
        with environment(kv_env(self.kv_conn_id)):
            return steps.collect_metadata(config, holder, client, options)
