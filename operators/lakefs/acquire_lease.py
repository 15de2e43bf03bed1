"""The first task of a run: the exclusive right to work on the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.lakefs.schedules import GC_SCHEDULES
from airflow_dredge.operators.lease import AcquireLeaseOperator
from airflow_dredge.operators.policy import present_variables
from dredge.gc import steps
from dredge.runs.lease import LeaseGrant

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter


class LakeFSAcquireLeaseOperator(LakeFSOperator, AcquireLeaseOperator):
    """Take the exclusive right to work on a repository; while another run has it, wait without a worker slot.

    :param repository: lakeFS repository (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles

    Further parameters are those of ``AcquireLeaseOperator``.
    """

    command = "dredge gc"
    template_fields: Sequence[str] = ("repository", "run_uri")

    def __init__(self, *, repository: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.repository = repository

    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state's folder, the repository, and which Variables bind its runs."""
        namespace = self.hook.client.repository(self.repository).namespace
        state = steps.open_state(namespace, storage_options(self.aws_conn_id))
        return state, self.repository, present_variables(GC_SCHEDULES, "repository", self.repository)

    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Take the right of the repository."""
        config = steps.GCConfig(repository=self.repository)
        grant = steps.acquire_lease(config, holder, self.hook.client, storage_options(self.aws_conn_id))
        return grant, {"repository": self.repository}

    def resume(self, grant: LeaseGrant) -> None:
        """Let the run go on under a new right."""
        steps.resume_run(self.run_uri, self.repository, grant, storage_options(self.aws_conn_id))
