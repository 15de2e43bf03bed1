"""What the steps share that read lakeFS's key-value store in a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.lakefs.spark import LakeFSSparkOperator
from airflow_dredge.operators.spark import PlannedRun


class LakeFSKVSparkOperator(LakeFSSparkOperator):
    """A distributed step that also reads the key-value store where the plan says so.

    :param kv_conn_id: connection of lakeFS's key-value store, the same as the plan step's (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    template_fields: Sequence[str] = (*LakeFSSparkOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return what lets the job reach the server, the object store and the key-value store."""
        return super().secrets(run) | kv_env(self.kv_conn_id)
