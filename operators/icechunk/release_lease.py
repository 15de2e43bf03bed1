"""The last task of a run: the right to maintain the repository is given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.application import end_applications
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.icechunk.base import IcechunkOperator, granted
from dredge.errors import ConfigError
from dredge.icechunk.maintenance import make_lease, open_state

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkReleaseLeaseOperator(IcechunkOperator):
    """Give the right back, whatever became of the run. A right that went to somebody else is left alone.

    Before that it ends the Spark application of the run on this machine, when it waits for steps that will not come.

    :param storage: URI of the repository (templated)
    :param grant: what the acquire task returned (templated)
    :param run_uri: folder of the collection; empty when there is none (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "grant", "run_uri")

    def __init__(self, *, grant: Any, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Give the right back."""
        if self.run_uri:
            end_applications(self.run_uri)
        grant = granted(self.grant)
        if grant is None:
            raise ConfigError("no lease was taken in this run, so there is none to give back")
        make_lease(open_state(self.storage, self.options)).release(grant)
        return {"storage": self.storage, "released": grant.fencing}
