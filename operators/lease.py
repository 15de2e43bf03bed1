"""The first task of a run: the exclusive right to work on the repository; each collector has one of its own."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_dredge.operators.failures import reported
from dredge.errors import ConfigError, LeaseHeldError
from dredge.runs.consents import check_variables
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import to_json
from dredge.runs.rendering import duration_text

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import ObjectWriter

log = logging.getLogger(__name__)

_ASK_EVERY_SECONDS = 30.0
_WAIT_SECONDS_MAX = 24 * 3600.0


class AcquireLeaseOperator(BaseSensorOperator):
    """Take the exclusive right to work on a repository; while another run has it, wait without a worker slot.

    A holder that died blocks nobody for ever: its right is taken over when it has expired by the store's clock.

    :param run_uri: folder of the run when it has a plan already, because only later tasks were cleared; the
        run then goes on under the new right (templated)
    :param poke_interval: seconds between two questions whether the repository is free
    :param timeout: seconds of waiting after which the task fails; 0 fails at once
    """

    def __init__(
        self,
        *,
        run_uri: str = "",
        poke_interval: float = _ASK_EVERY_SECONDS,
        timeout: float = _WAIT_SECONDS_MAX,
        **kwargs: Any,
    ) -> None:
        kwargs = {"mode": "reschedule"} | kwargs
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.run_uri = run_uri

    command: ClassVar[str]
    """Prefix of the collector's commands."""

    @abstractmethod
    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state's folder, the repository, and which Variables bind its runs; see ``check_variables``."""

    @abstractmethod
    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Take the right, and say what it is about.

        :raises LeaseHeldError: another run has it
        """

    @abstractmethod
    def resume(self, grant: LeaseGrant) -> None:
        """Let a run that was planned under an earlier right of this DAG run go on under the new one.

        :raises ConfigError: there is no such run
        """

    @reported
    def execute(self, context: Context) -> Any:
        """Ask until the right is given."""
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Take the right and return it, or say that another run has it."""
        try:
            # The same holder for every try of this run, so that a try that died does not lock out the next one.
            check_variables(*self.bound_by(), self.command)
            grant, facts = self.take(f"{self.dag_id} {context['run_id']}")
        except LeaseHeldError as error:
            self.log.info(
                "Waiting until the other run has ended, usually as long as a run of this repository takes; looking"
                " again every %.0f s, giving up after %s: %s",
                self.poke_interval,
                duration_text(timedelta(seconds=self.timeout)),
                error,
            )
            self._look_for(context, error.holder)
            return PokeReturnValue(is_done=False)
        if self.run_uri:
            self._resume(grant)
        return PokeReturnValue(is_done=True, xcom_value={**facts, **to_json(grant)})

    def _look_for(self, context: Context, holder: str) -> None:
        """Say where the run that has the lease is gone: nothing in Airflow gives it back then."""
        dag_id, _, run_id = holder.partition(" ")
        ti: Any = context["ti"]
        if run_id and not ti.get_dr_count(dag_id=dag_id, run_ids=[run_id]):
            log.warning(
                "This Airflow has no run %s of %s. If a person deleted it while it waited for an answer, reject it by"
                " the command (%s reject RUN, with DREDGE_AIRFLOW_URL): that gives the lease back. Else it passes at"
                " the time above.",
                run_id,
                dag_id,
                self.command,
            )

    def _resume(self, grant: LeaseGrant) -> None:
        try:
            self.resume(grant)
        except ConfigError as error:  # its folder is gone, so this DAG run will make a new plan
            self.log.info("%s", error)
