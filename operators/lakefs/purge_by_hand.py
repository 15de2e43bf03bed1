"""The task that makes deletions of runs final."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_dredge.operators.lakefs.undo import LakeFSUndoOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from dredge.lakefs import LakeFS
    from dredge.storage import StorageOptions


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
