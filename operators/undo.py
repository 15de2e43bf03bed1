"""Operators of DAGs with a single task: restore, purge, and collection of metadata files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import ReachesLakeFS
from airflow_dredge.operators.reporting import report_metrics
from dredge.gc import steps
from dredge.icechunk.collection.config import IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.process import environment
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.storage import environment_of_child

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions


class UndoOperator(BaseOperator):
    """Run one command on a repository in the Airflow worker, under the repository's lease.

    The task fails if a collection holds the lease.

    :param config: settings by name; docs/settings.md lists them (templated)
    :param aws_conn_id: connection of the object store; None, or a missing ``aws_default``, for local folders
        and machine roles
    """

    step: ClassVar[str]
    place: ClassVar[str]
    """Setting that has the repository."""
    template_fields: Sequence[str] = ("config",)

    def __init__(
        self, *, config: Mapping[str, Any], aws_conn_id: str | None = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.aws_conn_id = aws_conn_id

    @abstractmethod
    def work(self, holder: str, options: StorageOptions) -> StepSummary:
        """Run the command."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Run the command and return its counts."""
        options = storage_options(self.aws_conn_id)
        with environment(environment_of_child(options)):
            # Every try has the same holder: a retry takes over the lease of a try that crashed.
            summary = self.work(f"{self.dag_id} {context['run_id']}", options)
        for warning in summary.warnings:
            self.log.warning("%s", warning)
        return report_metrics(self.step, summary, str(self.config[self.place]))


class LakeFSUndoOperator(ReachesLakeFS, UndoOperator):
    """Base of the lakeFS operators; see :class:`UndoOperator`.

    :param lakefs_conn_id: connection of the lakeFS server
    """

    place = "repository"

    def __init__(self, *, lakefs_conn_id: str = LakeFSHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id


class LakeFSRestoreOperator(LakeFSUndoOperator):
    """Restore objects that a run deleted, with the same bytes and keys. Existing objects are not replaced."""

    step = "restore"

    def work(self, holder: str, options: StorageOptions) -> StepSummary:
        """Restore."""
        config = steps.RestoreConfig.from_params(self.config)
        return steps.restore(config, LocalRunner(), holder, self.hook.client, options)


class LakeFSPurgeOperator(LakeFSUndoOperator):
    """Permanently delete old copies and versions of deleted objects."""

    step = "purge"

    def work(self, holder: str, options: StorageOptions) -> StepSummary:
        """Purge."""
        config = steps.PurgeConfig.from_params(self.config)
        return steps.purge(config, LocalRunner(), holder, self.hook.client, options)


class LakeFSMetadataOperator(LakeFSUndoOperator):
    """Find range and metarange files without a commit, restore files with a new commit, delete old ones if configured.

    :param kv_conn_id: connection of lakeFS's key-value store, which has every commit (templated)
    """

    step = "metadata"
    template_fields: Sequence[str] = (*LakeFSUndoOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def work(self, holder: str, options: StorageOptions) -> StepSummary:
        """Collect metadata files."""
        config = steps.MetadataConfig.from_params(self.config)
        with environment(kv_env(self.kv_conn_id)):
            return steps.collect_metadata(config, holder, self.hook.client, options)


class IcechunkRestoreOperator(UndoOperator):
    """Restore objects that a collection deleted, or with `expiration` the history before an expiration."""

    step, place = "restore", "storage"

    def work(self, holder: str, options: StorageOptions) -> StepSummary:
        """Restore."""
        # Imported by this task only: each task of each DAG imports all operators.
        from dredge.icechunk.collection.steps import restore

        return restore(self._settings(), LocalRunner(), holder, options)

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Restore an expiration or deletions, and return the counts."""
        settings = self._settings()
        if not settings.expiration:
            found: dict[str, Any] = super().execute(context)
            return found
        from dredge.icechunk.expiration.restore import restore_expiration

        options, holder = storage_options(self.aws_conn_id), f"{self.dag_id} {context['run_id']}"
        done = restore_expiration(settings.repository, settings.run, holder, options)
        return {"restored_snapshots": done.snapshots, "restored_refs": list(done.refs)}

    def _settings(self) -> IcechunkRestoreConfig:
        return IcechunkRestoreConfig.from_params(self.config)


class IcechunkPurgeOperator(UndoOperator):
    """Permanently delete old copies and versions of deleted objects."""

    step, place = "purge", "storage"

    def work(self, holder: str, options: StorageOptions) -> StepSummary:
        """Purge."""
        # Imported by this task only: each task of each DAG imports all operators.
        from dredge.icechunk.collection.steps import purge

        return purge(IcechunkPurgeConfig.from_params(self.config), LocalRunner(), holder, options)
