"""The task that takes deletions of a run back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_dredge.operators.lakefs.undo import LakeFSUndoOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from dredge.lakefs import LakeFS
    from dredge.storage import StorageOptions


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
