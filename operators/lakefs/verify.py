"""The step that looks again."""

from __future__ import annotations

from airflow_dredge.operators.lakefs.base import LakeFSRunOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary


class LakeFSVerifySweepOperator(LakeFSRunOperator):
    """Look whether what was deleted is gone and what is live is there.

    In a dry run there is nothing to look at.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "verify"

    def work(self, run: steps.Run) -> StepSummary:
        """Look again."""
        return steps.verify(run)
