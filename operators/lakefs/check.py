"""The first task of a lakeFS collection: the preflight, where only that is wanted."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.check import CheckOperator
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection, is_named
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import ReachesLakeFS
from airflow_dredge.operators.spark import SparkJobOperator
from airflow_dredge.operators.spark_check import check_spark
from dredge.gc import steps

if TYPE_CHECKING:
    from dredge.runs.preflight import Preflight


class LakeFSCheckOperator(ReachesLakeFS, CheckOperator, SparkJobOperator):  # type: ignore[misc]
    """Ask for everything that a collection will need: as `dredge gc check` does, and whether executors can work.

    :param config: as for ``LakeFSPlanRunOperator`` (templated)
    :param kv_conn_id: connection of lakeFS's key-value store (templated)
    :param lakefs_conn_id: connection of the lakeFS server

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "check_executors"
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "check_only", "config", "kv_conn_id")

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        kv_conn_id: str | None = None,
        lakefs_conn_id: str = LakeFSHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "run_uri": ""})  # there is no run
        self.config = config
        self.kv_conn_id = kv_conn_id
        self.lakefs_conn_id = lakefs_conn_id

    def ask(self) -> Preflight:
        """Ask server, store and key-value store, then Spark."""
        options = storage_options(self.aws_conn_id)
        kv = None
        if is_named(self.kv_conn_id):
            connection = LakeFSKVConnection.of(str(self.kv_conn_id))
            kv = steps.KVAccess(connection.url, connection.keys)
        found = steps.check(steps.GCConfig.from_params(self.config, options), self.hook.client, options, kv)
        self.run_uri = f"check://{uuid.uuid4().hex}"
        return replace(found, lines=(*found.lines, check_spark(self)))
