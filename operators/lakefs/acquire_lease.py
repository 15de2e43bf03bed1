"""The first task of a run: the exclusive right to work on the repository."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from dredge.errors import ConfigError, LeaseHeldError
from dredge.gc import steps
from dredge.runs.lease import LeaseGrant
from dredge.runs.words import duration_text

if TYPE_CHECKING:
    from airflow.sdk import Context

_ASK_EVERY_SECONDS = 30.0
_WAIT_SECONDS_MAX = 24 * 3600.0


class LakeFSAcquireLeaseOperator(LakeFSOperator, BaseSensorOperator):
    """Take the exclusive right to work on a repository; while another run has it, wait without a worker slot.

    A holder that died blocks nobody for ever: its right is taken over when it has expired by the store's clock.

    :param repository: lakeFS repository (templated)
    :param run_uri: folder of the run when it has a plan already, because only later tasks were cleared; the
        run then goes on under the new right (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    :param poke_interval: seconds between two questions whether the repository is free
    :param timeout: seconds of waiting after which the task fails; 0 fails at once
    """

    template_fields: Sequence[str] = ("repository", "run_uri")

    def __init__(
        self,
        *,
        repository: str,
        run_uri: str = "",
        poke_interval: float = _ASK_EVERY_SECONDS,
        timeout: float = _WAIT_SECONDS_MAX,
        **kwargs: Any,
    ) -> None:
        kwargs = {"mode": "reschedule"} | kwargs
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.repository = repository
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> Any:
        """Ask until the right is given."""
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Take the right and return it, or say that another run has it."""
        # The same holder for every try of this run, so that a try that died does not lock out the next one.
        holder = f"{self.dag_id} {context['run_id']}"
        options = storage_options(self.aws_conn_id)
        try:
            config = steps.GCConfig(repository=self.repository)
            grant = steps.acquire_lease(config, holder, self.hook.client, options)
        except LeaseHeldError as error:
            self.log.info(
                "Waiting until the other run has ended, usually as long as a run of this repository takes; looking"
                " again every %.0f s, giving up after %s: %s",
                self.poke_interval,
                duration_text(timedelta(seconds=self.timeout)),
                error,
            )
            return PokeReturnValue(is_done=False)
        if self.run_uri:
            self._resume(grant)
        return PokeReturnValue(is_done=True, xcom_value={"repository": self.repository, **grant.to_json()})

    def _resume(self, grant: LeaseGrant) -> None:
        """Let a run that was planned under an earlier right of this DAG run go on under the new one."""
        try:
            steps.resume_run(self.run_uri, self.repository, grant, storage_options(self.aws_conn_id))
        except ConfigError as error:  # its folder is gone, so this DAG run will make a new plan
            self.log.info("%s", error)
