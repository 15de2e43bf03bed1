"""The step that reads what branches have staged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.lakefs.base import LakeFSRunOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary


class LakeFSMarkUncommittedOperator(LakeFSRunOperator):
    """Read every page of a repository's uncommitted addresses.

    Runs after the listing and before commits are read: an object moves from staging into a commit, never
    back to nothing. With a connection of lakeFS's key-value store its staging records are read as well,
    which have what the server leaves out.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param kv_conn_id: connection of the key-value store, the same as the plan step's (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "mark_uncommitted"
    template_fields: Sequence[str] = (*LakeFSRunOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def variables(self) -> dict[str, str]:
        """Return what opens the key-value store."""
        return kv_env(self.kv_conn_id)

    def work(self, run: steps.Run) -> StepSummary:
        """Read staging to the end."""
        return steps.mark_uncommitted(run)
