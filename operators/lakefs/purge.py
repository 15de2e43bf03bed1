"""The last step of a collection that purges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.lakefs.base import LakeFSRunOperator
from dredge.gc import steps
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSPurgeOldOperator(LakeFSRunOperator):
    """Delete for good what earlier runs could still bring back, where the run's ``purge_days`` says so.

    Only what the mark of the same run shows as not live goes. A dry run only counts it.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param kv_conn_id: connection of the key-value store, the same as the plan step's (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "purge"
    template_fields: Sequence[str] = (*LakeFSRunOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def variables(self) -> dict[str, str]:
        """Return what opens the key-value store."""
        return kv_env(self.kv_conn_id)

    def work(self, run: steps.Run) -> StepSummary:
        """Purge."""
        return steps.purge_old(run, LocalRunner())

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Purge, and return the figures; nothing where the run has no ``purge_days``."""
        if self.open_run(self.run_uri).plan.config.purge_days is None:
            self.log.info("purge_days is empty: nothing is purged")
            return {}
        found: dict[str, Any] = super().execute(context)
        return found
