"""Base operators of the tasks that can stop a run: preflight, lease, approval."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException, TaskDeferred
from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, PokeReturnValue

from airflow_dredge.operators.airflow_versions import TaskAwaitingInput
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import tasks_environment
from airflow_dredge.operators.reporting import COMPLETE, REPORT, ReportLink, report_metrics
from dredge.errors import (
    AwaitingApprovalError,
    ConfigError,
    LeaseHeldError,
    RefusedError,
    RejectedError,
    UnavailableError,
)
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import to_json
from dredge.runs.variables import check_variables
from dredge.runs.words import duration_text
from dredge.settings import truth

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight
    from dredge.storage import ObjectWriter


class CheckOperator(BaseOperator, SkipMixin):
    """Ask for everything that a run will need, where only that is wanted, and skip the run; else go on at once.

    Returns the lines of the preflight.

    :param check_only: whether there is to be no run (templated)
    """

    def __init__(self, *, check_only: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check_only = check_only

    @abstractmethod
    def ask(self) -> Preflight:
        """Do the preflight."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Check, or go on.

        :raises RefusedError: a run would be refused, or fail
        """
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
        # Skipped, not left to their trigger rules: the task that reports runs whatever happened before it. It raises.
        self.skip(ti=context["ti"], tasks=self.get_flat_relatives())
        raise AssertionError("unreachable")


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


try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except AirflowOptionalProviderFeatureException:  # Airflow 3.0 cannot ask a person

    class ApprovalOperator(BaseOperator, SkipMixin):  # type: ignore[no-redef]
        """Stands in for Airflow's operator; the task fails where it would ask."""

        inherits_from_skipmixin = True
        APPROVE, REJECT = "Approve", "Reject"

        def __init__(self, *, subject: str, defaults: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    CAN_ASK = False
else:
    CAN_ASK = True

_PARKED = (TaskDeferred, TaskAwaitingInput) if TaskAwaitingInput else (TaskDeferred,)


class ApproveOperator(ApprovalOperator):
    """Ask a person whether a run may delete, where its settings and its limits want that; else go on at once.

    While it waits no worker is busy with it: from Airflow 3.3 on it is in the state ``awaiting_input``, before that it
    is deferred to the triggerer. Airflow 3.0 cannot ask: the task fails, and is cleared after the command. It is
    answered
    under *Required Actions*, by Airflow's API, or with the collector's commands ``approve`` and ``reject``. Without an
    answer in time the run is rejected. A rejected run deletes nothing: the tasks that delete are skipped.

    The answer itself stands in the run folder, written once, bound to the digest of the candidates; the sweep reads it
    there. Success of this task, however it came about, lets nobody delete anything.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    """

    step: ClassVar[str] = "approve"
    asks: ClassVar[str]
    """What is asked, as long as nobody knows more."""
    # Subject and body are made of names from the lake, so they must never be rendered as templates.
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
        """Go on when nobody has to be asked, or somebody has answered; else ask and wait."""
        run = self.open()
        try:
            return self._go_on(context, run)
        except AwaitingApprovalError as error:
            if not CAN_ASK:
                raise AwaitingApprovalError(
                    f"{error} Airflow before 3.1 has no Required Actions: answer with the command, then clear this"
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
        """Write down what was answered, and go on or end the run.

        :param event: the answer, as Airflow hands it over
        :param question: digest of what was asked when the task was parked
        """
        run = self.open()
        user = event.get("responded_by_user") or {}
        approved = event.get("chosen_options") == [self.APPROVE] and bool(user)
        if approved:
            self._answer(run, "approved", user, question)
        elif user:
            self._reject(run, user)
        else:  # nobody answered here: perhaps a command did
            self._time_is_over(run)
        return self._go_on(context, run)

    def _go_on(self, context: Context, run: Any) -> dict[str, Any]:
        """Take the answer that stands."""
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
            self.log.info("Nobody has to be asked")
            # Airflow asks for the task's link, and logs an error where there is no value.
            context["ti"].xcom_push(REPORT, "")
            return {"step": self.step, "run_id": run.plan.run_id, "status": "not_asked"}
        return report_metrics(self.step, summary, run.plan.repository)

    def _ask(self, context: Context, run: Any) -> str:
        """Word the question for Airflow; gives its digest."""
        with tasks_environment(run):
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
            # A retry would forget what was answered and ask again: a no must not become a question.
            raise RejectedError(
                f"run {run.plan.run_id} was rejected by {user['id']}, and that could not be written down ({error})."
                " Nothing was deleted."
            ) from error

    def _time_is_over(self, run: Any) -> None:
        try:
            self.steps.approve(run)
        except AwaitingApprovalError:
            self.steps.answer(run, "rejected", "", self.steps.TIME_OUT)
        except RejectedError:
            return


def what_went_wrong(outcome: str, read_report: Callable[[], Mapping[str, Any]]) -> str:
    """Return why a run did not end well, "" where it did.

    A run that a person rejected ended well; that nobody answered must be noticed.

    :param outcome: of the run
    :param read_report: reads its report
    """
    if outcome in COMPLETE:
        return ""
    report = read_report()
    said = report["approval"]
    if outcome == "rejected" and said is not None and said["state"] == "rejected" and said["by"]:
        return ""
    return str(next(iter(report["problems"]), "a task ended before it could say why"))


def _in_dag_test() -> bool:
    """Whether ``dag.test()`` does the run, which would wait for ever: nobody can answer there."""
    code, frame = inspect.unwrap(DAG.test).__code__, inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
