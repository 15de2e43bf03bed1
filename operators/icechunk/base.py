"""What the Icechunk operators share: the repository's doors, its lease, its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from dredge.errors import ConfigError
from dredge.icechunk.collection.plan import PLAN
from dredge.icechunk.collection.run import Run
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.lease import LeaseGrant
from dredge.storage import StorageOptions, open_reader
from operators.failures import reported
from operators.hooks.storage import storage_options

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkOperator(BaseOperator):
    """Work on an Icechunk repository.

    :param storage: URI of the repository (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
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
            self._hand_over(grant)
        return {"storage": self.storage, "spec_version": spec, **grant.to_json()}

    def _hand_over(self, grant: LeaseGrant) -> None:
        """Let a run that was planned under an earlier right of this DAG run go on under the new one."""
        try:
            run = Run.open(self.run_uri, self.options)
        except ConfigError as error:  # its folder is gone, so this DAG run will make a new plan
            self.log.info("%s", error)
            return
        if (run.plan.uri, run.plan.lease.holder) == (self.storage, grant.holder):
            run.folder.write_json(PLAN, replace(run.plan, lease=grant).to_json())
            self.log.info("Run %s goes on under lease number %d", run.plan.run_id, grant.fencing)


class IcechunkReleaseLeaseOperator(IcechunkOperator):
    """Give the right back, whatever became of the run. A right that went to somebody else is left alone.

    :param storage: URI of the repository (templated)
    :param grant: what the acquire task returned (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "grant")

    def __init__(self, *, grant: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Give the right back."""
        grant = granted(self.grant)
        if grant is None:
            raise ConfigError("no lease was taken in this run, so there is none to give back")
        make_lease(open_state(self.storage, self.options)).release(grant)
        return {"storage": self.storage, "released": grant.fencing}


def granted(value: Any) -> LeaseGrant | None:
    """Return the lease that an acquire task returned, None when there is none."""
    return LeaseGrant.from_json(value) if isinstance(value, Mapping) else None


def now() -> datetime:
    """Return the time that durations are counted back from."""
    return datetime.now(UTC)
