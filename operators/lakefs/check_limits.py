"""The step that asks every guard."""

from __future__ import annotations

from airflow_dredge.operators.lakefs.base import LakeFSRunOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary


class LakeFSCheckLimitsOperator(LakeFSRunOperator):
    """Ask every guard whether the candidates may be deleted.

    A limit that is exceeded stops the run: the task fails at once, and nothing is deleted.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "check_limits"

    def work(self, run: steps.Run) -> StepSummary:
        """Ask the guards."""
        return steps.check_limits(run)
