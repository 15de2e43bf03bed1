"""The first task of a run: the exclusive right to maintain the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.icechunk.base import IcechunkOperator
from airflow_dredge.operators.icechunk.params import ICECHUNK_SCHEDULES
from airflow_dredge.operators.lease import AcquireLeaseOperator
from airflow_dredge.operators.policy import present_variables
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.lease import LeaseGrant
from dredge.storage import open_reader

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter


class IcechunkAcquireLeaseOperator(IcechunkOperator, AcquireLeaseOperator):
    """Take the exclusive right to maintain a repository; while another run has it, wait without a worker slot.

    :param storage: URI of the repository (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles

    Further parameters are those of ``AcquireLeaseOperator``.
    """

    command = "dredge icechunk"
    template_fields: Sequence[str] = ("storage", "run_uri")

    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state's folder, the repository, and which Variables bind its runs."""
        present = present_variables(ICECHUNK_SCHEDULES, "storage", self.storage)
        spec_version(
            open_reader(self.storage, self.options)
        )  # nothing is written where there is no repository
        return open_state(self.storage, self.options), self.storage, present

    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Take the right of the repository."""
        spec = spec_version(open_reader(self.storage, self.options))
        grant = make_lease(open_state(self.storage, self.options)).acquire(holder)
        return grant, {"storage": self.storage, "spec_version": spec}

    def resume(self, grant: LeaseGrant) -> None:
        """Let the collection go on under a new right."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import resume_run

        resume_run(self.run_uri, self.storage, grant, self.options)
