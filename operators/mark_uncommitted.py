"""The step that reads what branches have staged."""

from __future__ import annotations

from dredge.gc import steps
from dredge.runs.summary import StepSummary
from operators.base import LakeFSRunOperator


class LakeFSMarkUncommittedOperator(LakeFSRunOperator):
    """Read every page of a repository's uncommitted addresses.

    Runs after the listing and before commits are read: an object moves from staging into a commit, never
    back to nothing.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    step = "mark_uncommitted"

    def work(self, run: steps.Context) -> StepSummary:
        """Read staging to the end."""
        return steps.mark_uncommitted(run)
