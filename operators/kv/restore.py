"""The task that puts back what the trash cleaner removed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.kv.base import LakeFSKVOperator
from dredge.kv.rows import ReadRate
from dredge.trash.settings import TrashRestoreConfig

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSKVRestoreTrashOperator(LakeFSKVOperator):
    """Put rows back that a run of the cleaner removed; a dry run unless told. A key that exists stays as it is.

    Parameters: see :class:`LakeFSKVOperator`; ``config`` such as ``{"state_uri": "s3://ops/trash", "run": "g3…"}``.
    """

    @cached_property
    def checked(self) -> TrashRestoreConfig:
        """The rendered settings."""
        return TrashRestoreConfig.from_params(self.config)

    @property
    def state_uri(self) -> str:
        """Where the undo files are."""
        return self.checked.state_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Put back, or count, and return the figures."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.trash.restore import restore

        config = self.checked
        with self.connection.cleaner(ReadRate(None, self.segments)) as store:
            return restore(
                store, self.state, config.run, partitions=config.partitions, dry_run=config.dry_run
            )
