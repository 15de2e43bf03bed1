"""The first task of a lakeFS collection: the preflight, where only that is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.check import CheckOperator
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection, is_named
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from dredge.gc import steps

if TYPE_CHECKING:
    from dredge.runs.preflight import Preflight


class LakeFSCheckOperator(LakeFSOperator, CheckOperator):
    """Ask for everything that a collection will need, as `dredge gc check` does.

    :param config: as for ``LakeFSPlanRunOperator`` (templated)
    :param kv_conn_id: connection of lakeFS's key-value store (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("check_only", "config", "kv_conn_id")

    def __init__(self, *, config: Mapping[str, Any], kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.kv_conn_id = kv_conn_id

    def ask(self) -> Preflight:
        """Ask server, store and key-value store."""
        options = storage_options(self.aws_conn_id)
        kv = None
        if is_named(self.kv_conn_id):
            connection = LakeFSKVConnection.of(str(self.kv_conn_id))
            kv = steps.KVAccess(connection.url, connection.keys)
        return steps.check(steps.GCConfig.from_params(self.config, options), self.hook.client, options, kv)
