"""The last task of a run: the right to work on the repository is given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.application import end_applications
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from dredge.errors import ConfigError
from dredge.gc import steps
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSReleaseLeaseOperator(LakeFSOperator):
    """Give the right back, whatever became of the run. A right that went to somebody else is left alone.

    Before that it ends the Spark application of the run on this machine, when it waits for steps that will not come.

    :param grant: what the acquire task returned (templated)
    :param run_uri: folder of the run; empty when there is no plan (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("grant", "run_uri")

    def __init__(self, *, grant: Any, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Give the right back."""
        if self.run_uri:
            end_applications(self.run_uri)
        if not isinstance(self.grant, Mapping):
            raise ConfigError("no lease was taken in this run, so there is none to give back")
        grant = from_json(LeaseGrant, self.grant)
        config = steps.GCConfig(repository=self.grant["repository"])
        steps.release_grant(config, grant, self.hook.client, storage_options(self.aws_conn_id))
        return {"repository": config.repository, "released": grant.fencing}
