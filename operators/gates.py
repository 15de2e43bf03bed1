"""Base operators of the tasks that may stop a run: preflight, lease, approval."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException, TaskDeferred
from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, PokeReturnValue

from airflow_dredge.operators.airflow_versions import TaskAwaitingInput
from airflow_dredge.operators.application import end_applications
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import tasks_environment
from airflow_dredge.operators.reporting import REPORT, ReportLink, report_metrics
from dredge.errors import (
    AwaitingApprovalError,
    ConfigError,
    LeaseHeldError,
    RefusedError,
    RejectedError,
    UnavailableError,
)
from dredge.runs.consents import check_variables
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json, to_json
from dredge.runs.report import duration_text
from dredge.settings import truth

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight
    from dredge.storage import ObjectWriter

log = logging.getLogger(__name__)

_POKE_SECONDS = 30.0
_WAIT_SECONDS_MAX = 24 * 3600.0

try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except AirflowOptionalProviderFeatureException:  # Airflow 3.0 has no Required Actions

    class ApprovalOperator(BaseOperator, SkipMixin):  # type: ignore[no-redef]
        """Replaces Airflow's missing operator; the task fails instead of waiting."""

        inherits_from_skipmixin = True
        APPROVE, REJECT = "Approve", "Reject"

        def __init__(self, *, subject: str, defaults: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    CAN_ASK = False
else:
    CAN_ASK = True

_PARKED = (TaskDeferred, TaskAwaitingInput) if TaskAwaitingInput else (TaskDeferred,)


class CheckOperator(BaseOperator, SkipMixin):
    """If ``check_only`` is set, run the preflight, skip the run, and return the preflight's lines; else do nothing.

    :param check_only: whether to skip the run (templated)
    """

    def __init__(self, *, check_only: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check_only = check_only

    @abstractmethod
    def ask(self) -> Preflight:
        """Run the preflight."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Run the preflight if ``check_only`` is set."""
        if not truth("check_only", self.check_only):
            return {"status": "not_asked"}
        found = self.ask()
        for line in found.lines:
            self.log.info(
                "%s %s: %s%s", line.level, line.check, line.text, f" → {line.todo}" if line.todo else ""
            )
        bad = [f"{line.check}: {line.text} → {line.todo}" for line in found.lines if line.level == "error"]
        if bad:
            raise RefusedError(f"{found.about}: a run would fail. {'; '.join(bad)}")
        context["ti"].xcom_push("return_value", {"status": found.level, **found.to_report()})
        # All tasks, because the trigger rule of the report task would let it run. This call raises.
        self.skip(ti=context["ti"], tasks=self.get_flat_relatives())
        raise AssertionError("unreachable")


class AcquireLeaseOperator(BaseSensorOperator):
    """Acquire the lease of a repository; wait without a worker slot while another run holds it.

    The lease of a crashed run expires by the store's clock.

    :param run_uri: folder of the run, if an earlier try planned it: the run then continues under the new
        lease (templated)
    :param poke_interval: seconds between two tries
    :param timeout: seconds after which the task fails; 0 fails at once
    """

    command: ClassVar[str]
    """Prefix of the collector's commands."""

    def __init__(
        self,
        *,
        run_uri: str = "",
        poke_interval: float = _POKE_SECONDS,
        timeout: float = _WAIT_SECONDS_MAX,
        **kwargs: Any,
    ) -> None:
        kwargs = {"mode": "reschedule"} | kwargs
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.run_uri = run_uri

    @abstractmethod
    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return state folder, repository, and presence of the Variables that limit runs; see ``check_variables``."""

    @abstractmethod
    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Acquire the lease, and return it with facts for XCom."""

    @abstractmethod
    def resume(self, grant: LeaseGrant) -> None:
        """Write the new lease into the plan that this DAG run made under an earlier lease."""

    @reported
    def execute(self, context: Context) -> Any:
        """Acquire the lease, and wait until it is free."""
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Try to acquire the lease."""
        try:
            check_variables(*self.bound_by(), self.command)
            # Every try has the same holder: a retry takes over the lease of a try that crashed.
            grant, facts = self.take(f"{self.dag_id} {context['run_id']}")
        except LeaseHeldError as error:
            self.log.info(
                "Waiting for the run that holds the lease; next try in %.0f s, the task fails after %s: %s",
                self.poke_interval,
                duration_text(timedelta(seconds=self.timeout)),
                error,
            )
            self._warn_if_deleted(context, error.holder)
            return PokeReturnValue(is_done=False)
        if self.run_uri:
            self._resume(grant)
        return PokeReturnValue(is_done=True, xcom_value={**facts, **to_json(grant)})

    def _warn_if_deleted(self, context: Context, holder: str) -> None:
        dag_id, _, run_id = holder.partition(" ")
        ti: Any = context["ti"]
        if run_id and not ti.get_dr_count(dag_id=dag_id, run_ids=[run_id]):
            log.warning(
                "The DAG run %s of %s holds the lease and does not exist in this Airflow. If it was deleted while it"
                " waited for an approval, reject it to release the lease (%s reject RUN, with DREDGE_AIRFLOW_URL)."
                " Otherwise the lease expires at the time above.",
                run_id,
                dag_id,
                self.command,
            )

    def _resume(self, grant: LeaseGrant) -> None:
        try:
            self.resume(grant)
        except ConfigError as error:  # without a run folder, this DAG run makes a new plan
            self.log.info("%s", error)


def read_grant(value: Any) -> LeaseGrant | None:
    """Return the lease in the XCom of an acquire task; None if the task acquired none."""
    return from_json(LeaseGrant, value) if isinstance(value, Mapping) else None


def end_run(run_uri: str, grant: Any) -> LeaseGrant:
    """Stop the run's idle Spark applications on this machine, and return the run's lease for its release."""
    if run_uri:
        end_applications(run_uri)
    found = read_grant(grant)
    if found is None:
        raise ConfigError("this run acquired no lease; nothing to release")
    return found


class ApproveOperator(ApprovalOperator):
    """Wait for a person's approval if settings or limits require one; else do nothing.

    The wait needs no worker: the task is in state ``awaiting_input`` from Airflow 3.3, and deferred to the
    triggerer before. On Airflow 3.0 the task fails; clear it after the answer. Answers come from *Required
    Actions*, Airflow's API, or the collector's commands ``approve`` and ``reject``. Without an answer in time
    the run is rejected. A rejected run skips the tasks that delete.

    The answer is a file in the run folder, written once, with the digest of the candidates. The sweep reads
    this file, so a success of this task alone permits no deletion.

    :param run_uri: folder of the run, from the plan task (templated)
    """

    step: ClassVar[str] = "approve"
    asks: ClassVar[str]
    """Subject of the question before the run is open."""
    # Subject and body contain names from the lake, so they are never rendered as templates.
    template_fields: Sequence[str] = ("run_uri",)
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, run_uri: str, **kwargs: Any) -> None:
        words = {"subject": self.asks, "defaults": self.REJECT}
        super().__init__(**{**words, **kwargs})
        self.run_uri = run_uri

    @property
    @abstractmethod
    def steps(self) -> Any:
        """The module with the collector's steps."""

    @abstractmethod
    def open(self) -> Any:
        """Open the run."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Ask and wait, unless the run needs no approval or has an answer."""
        run = self.open()
        try:
            return self._go_on(context, run)
        except AwaitingApprovalError as error:
            if not CAN_ASK:
                raise AwaitingApprovalError(
                    f"{error} Airflow before 3.1 has no Required Actions: answer with this command, then clear this"
                    " task."
                ) from None
            if _in_dag_test():
                raise
            self.log.info("%s", error)
        question = self._ask(context, run)
        try:
            super().execute(context)  # parks the task
        except _PARKED as parked:
            parked.kwargs = {"question": question}
            raise
        raise AssertionError("unreachable")

    @reported
    def execute_complete(self, context: Context, event: dict[str, Any], question: str = "") -> dict[str, Any]:
        """Store the answer; continue or reject the run."""
        run = self.open()
        user = event.get("responded_by_user") or {}
        approved = event.get("chosen_options") == [self.APPROVE] and bool(user)
        if approved:
            self._answer(run, "approved", user, question)
        elif user:
            self._reject(run, user)
        else:  # no answer in Airflow; a command may have answered
            self._time_out(run)
        return self._go_on(context, run)

    def _go_on(self, context: Context, run: Any) -> dict[str, Any]:
        try:
            summary = self.steps.approve(run)
        except RejectedError as error:
            self.log.warning("%s", error)
            self.skip(
                ti=context["ti"],
                tasks=[task for task in self.get_direct_relatives(upstream=False) if not task.is_teardown],
            )
            return {"step": self.step, "run_id": run.plan.run_id, "status": "rejected"}
        if summary is None:
            self.log.info("This run needs no approval")
            # Airflow logs an error for a link without a value.
            context["ti"].xcom_push(REPORT, "")
            return {"step": self.step, "run_id": run.plan.run_id, "status": "not_asked"}
        return report_metrics(self.step, summary, run.plan.repository)

    def _ask(self, context: Context, run: Any) -> str:
        """Set the question for Airflow, and return its digest."""
        with tasks_environment(run.options):
            question = self.steps.put_question(run)
        context["ti"].xcom_push(REPORT, question.report)
        self.subject, self.body = question.subject, question.body
        users: list[Any] = [{"id": name, "name": name} for name in question.approvers]
        self.assigned_users = users or None
        self.response_timeout = question.wait
        return str(question.digest)

    def _answer(self, run: Any, decision: str, user: Mapping[str, Any], question: str = "") -> None:
        self.steps.answer(run, decision, str(user["id"]), self.steps.AIRFLOW, question)

    def _reject(self, run: Any, user: Mapping[str, Any]) -> None:
        try:
            self._answer(run, "rejected", user)
        except UnavailableError as error:
            # A retry would ask again, because Airflow forgets the answer: a rejection must not become a question.
            raise RejectedError(
                f"run {run.plan.run_id} was rejected by {user['id']}, but the answer could not be stored ({error})."
                " Nothing was deleted."
            ) from error

    def _time_out(self, run: Any) -> None:
        try:
            self.steps.approve(run)
        except AwaitingApprovalError:
            self.steps.answer(run, "rejected", "", self.steps.TIME_OUT)
        except RejectedError:
            return


def _in_dag_test() -> bool:
    """Return whether ``dag.test()`` runs the task: it cannot receive an answer and would wait forever."""
    code, frame = inspect.unwrap(DAG.test).__code__, inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
