"""The step in which a person says whether the candidates may be deleted; each collector has one of its own."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowOptionalProviderFeatureException,
    SkipMixin,
    TaskDeferred,
)
from airflow.sdk import DAG, BaseOperator

from airflow_dredge.operators.airflow_versions import TaskAwaitingInput
from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.links import REPORT, ReportLink
from airflow_dredge.operators.metrics import COMPLETE, report_metrics
from dredge.errors import AwaitingApprovalError, RejectedError, UnavailableError

if TYPE_CHECKING:
    from airflow.sdk import Context

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
