"""What the Icechunk operators share: the repository and how its store is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_dredge.operators.hooks.storage import storage_options
from dredge.errors import ConfigError
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.storage import StorageOptions

if TYPE_CHECKING:
    from dredge.icechunk.collection.steps import Run


class IcechunkOperator(BaseOperator):
    """Work on an Icechunk repository.

    :param storage: URI of the repository (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage",)

    def __init__(self, *, storage: str, aws_conn_id: str | None = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.storage = storage
        self.aws_conn_id = aws_conn_id

    @property
    def options(self) -> StorageOptions:
        """How the connection reaches the store."""
        return storage_options(self.aws_conn_id)


def granted(value: Any) -> LeaseGrant | None:
    """Return the lease that an acquire task returned, None when there is none."""
    return from_json(LeaseGrant, value) if isinstance(value, Mapping) else None


def open_run(run_uri: str, aws_conn_id: str | None) -> Run:
    """Open a collection, with the store that the connection describes.

    :param run_uri: folder of the run; empty when there is no plan
    :param aws_conn_id: connection of the object store
    :raises ConfigError: there is no such run
    """
    # Loaded by a task that works on a run: every task of every DAG reads the files of all operators.
    from dredge.icechunk.collection.steps import Run

    if not run_uri:
        raise ConfigError(
            "this run has no plan, because an earlier task failed; see its log. Nothing was done."
        )
    return Run.open(run_uri, storage_options(aws_conn_id))
