"""The first task of a run: the exclusive right to maintain the repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.icechunk.base import IcechunkOperator
from dredge.errors import ConfigError
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.lease import LeaseGrant
from dredge.storage import open_reader

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkAcquireLeaseOperator(IcechunkOperator):
    """Take the exclusive right to maintain a repository; fail at once when another run has it.

    :param storage: URI of the repository (templated)
    :param run_uri: folder of the collection when it has a plan already, because only later tasks were cleared;
        it then goes on under the new right (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "run_uri")

    def __init__(self, *, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Take the right and return it."""
        spec = spec_version(open_reader(self.storage, self.options))
        # The same holder for every try of this run, so that a try that died does not lock out the next one.
        grant = make_lease(open_state(self.storage, self.options)).acquire(
            f"{self.dag_id} {context['run_id']}"
        )
        if self.run_uri:
            self._resume(grant)
        return {"storage": self.storage, "spec_version": spec, **grant.to_json()}

    def _resume(self, grant: LeaseGrant) -> None:
        """Let a run that was planned under an earlier right of this DAG run go on under the new one."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import resume_run

        try:
            resume_run(self.run_uri, self.storage, grant, self.options)
        except ConfigError as error:  # its folder is gone, so this DAG run will make a new plan
            self.log.info("%s", error)
