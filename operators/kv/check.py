"""The first task of the trash cleaner: the preflight, where only that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_dredge.operators.check import CheckOperator
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.kv.base import LakeFSKVTrashOperator

if TYPE_CHECKING:
    from dredge.runs.preflight import Preflight


class LakeFSKVCheckTrashOperator(LakeFSKVTrashOperator, CheckOperator):
    """Ask for everything that a look and a cleaning will need, as `dredge trash check` does.

    Parameters: see :class:`LakeFSKVTrashOperator`.
    """

    template_fields: Sequence[str] = ("check_only", *LakeFSKVTrashOperator.template_fields)

    def ask(self) -> Preflight:
        """Ask the key-value store and the store of the state folder."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.trash.preflight import check

        options = storage_options(self.aws_conn_id)
        return check(self.checked, lambda: self.connection.reader(self.rate), options)
