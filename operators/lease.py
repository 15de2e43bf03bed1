"""The first and the last task of a run: the exclusive right to work on the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError
from dredge.gc.config import GCConfig
from dredge.gc.plan import PLAN
from dredge.gc.planning import acquire_lease, release_grant
from dredge.runs.lease import LeaseGrant
from operators.base import LakeFSOperator, open_run
from operators.hooks.storage import storage_options

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSAcquireLeaseOperator(LakeFSOperator):
    """Take the exclusive right to work on a repository; fail at once when another run has it.

    :param repository: lakeFS repository (templated)
    :param run_uri: folder of the run when it has a plan already, because only later tasks were cleared; the
        run then goes on under the new right (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("repository", "run_uri")

    def __init__(self, *, repository: str, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.repository = repository
        self.run_uri = run_uri

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the right and return it."""
        # The same holder for every try of this run, so that a try that died does not lock out the next one.
        holder = f"{self.dag_id} {context['run_id']}"
        options = storage_options(self.aws_conn_id)
        grant = acquire_lease(GCConfig(repository=self.repository), holder, self.hook.client, options)
        if self.run_uri:
            self._hand_over(grant)
        return {"repository": self.repository, **grant.to_json()}

    def _hand_over(self, grant: LeaseGrant) -> None:
        """Let a run that was planned under an earlier right of this DAG run go on under the new one."""
        try:
            run = open_run(self.run_uri, self.aws_conn_id, self.hook)
        except ConfigError as error:  # its folder is gone, so this DAG run will make a new plan
            self.log.info("%s", error)
            return
        if (run.plan.repository, run.plan.lease.holder) == (self.repository, grant.holder):
            run.folder.write_json(PLAN, replace(run.plan, lease=grant).to_json())
            self.log.info("Run %s goes on under lease number %d", run.plan.run_id, grant.fencing)


class LakeFSReleaseLeaseOperator(LakeFSOperator):
    """Give the right back, whatever became of the run. A right that went to somebody else is left alone.

    :param grant: what the acquire task returned (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("grant",)

    def __init__(self, *, grant: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant

    def execute(self, context: Context) -> dict[str, Any]:
        """Give the right back."""
        if not isinstance(self.grant, Mapping):
            raise ConfigError("no lease was taken in this run, so there is none to give back")
        grant = LeaseGrant.from_json(self.grant)
        config = GCConfig(repository=self.grant["repository"])
        release_grant(config, grant, self.hook.client, storage_options(self.aws_conn_id))
        return {"repository": config.repository, "released": grant.fencing}
