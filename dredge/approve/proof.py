"""What the sweep demands before it deletes for a run that had to ask: a yes to these very candidates, in time, and no
no. It is read afresh before each round of deleting, and a no is looked for while objects are deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from dredge.approve.asking import AskingRun
from dredge.approve.needed import why_asked
from dredge.approve.output import ApproveOutput, GuardsOutput
from dredge.approve.records import Answer, Asked, is_rejected, read_asked, request_of, subject_of
from dredge.errors import RefusedError, RejectedError
from dredge.runs.perform import StepRecord
from dredge.runs.words import duration_text

type Veto = Callable[[], str]
"""Says in half a sentence who forbids to go on; "" for nobody."""


def approval_of(run: AskingRun, record: StepRecord, output: type[ApproveOutput]) -> Veto:
    """Demand that a person approved what a sweep is about to delete, where one has to.

    Args:
        run: this run.
        record: of the sweep, with the results that it works with.
        output: of the collector's step approve.

    Returns:
        Tells, while it deletes, whether somebody has said no since.

    Raises:
        RejectedError: somebody said no.
        RefusedError: nobody said yes, or to something else, or too long ago.
    """
    guards = record.input(output.GUARDS)
    if not why_asked(run.plan, guards):
        return lambda: ""
    subject = subject_of(run, record.inputs, output)
    asked = read_asked(run, subject)
    summary = record.inputs.get(output.STEP)
    if asked is None or summary is None:
        raise _refused(run, "nobody has approved what it would delete")
    if asked.rejected is not None:
        raise RejectedError(rejected_text(run, asked.rejected))
    if asked.approved is None or output.of(summary).request_digest != asked.digest:
        raise _refused(run, "what was approved is not what it would delete now")
    check_approved(run, asked, asked.approved, guards)
    return lambda: "the run was rejected" if is_rejected(run) else ""


def check_approved(run: AskingRun, asked: Asked, answer: Answer, guards: GuardsOutput) -> None:
    """Demand that a yes is one to this run's question, from somebody who may give it, and in time.

    The question lies in a file, and who may approve and until when is in it, so it must be the one that follows from
    the plan and from what the guards found.

    Args:
        run: this run.
        asked: the question.
        answer: the yes.
        guards: what they found.

    Raises:
        RefusedError: it is not.
    """
    request, now = asked.request, run.store_now()
    latest = now + timedelta(seconds=run.plan.config.safety.clock_skew_seconds_max)
    ours = request_of(run, request.subject, guards, why_asked(run.plan, guards), request.asked_at)
    if request != ours or not run.plan.created_at <= request.asked_at <= latest:
        raise _refused(run, "what was approved is not what this run asks")
    expires_at = request.expires_at(answer.at)
    if (answer.request, answer.run_id, answer.candidates, answer.decision) != (
        asked.digest,
        request.run_id,
        request.candidates,
        "approved",
    ):
        raise _refused(run, "its approval is one of another run or of other candidates")
    if not request.may_approve(answer.by, answer.through):
        raise _refused(
            run, f"{answer.by or 'nobody'} ({answer.through}) approved it, who is none of its approvers"
        )
    if not request.asked_at <= answer.at < min(request.answer_until, latest):
        raise _refused(run, "it was not approved in time")
    if now >= expires_at:
        raise _refused(run, f"its approval expired {duration_text(now - expires_at)} ago")


def rejected_text(run: AskingRun, answer: Answer) -> str:
    """Word a no."""
    who = f"{answer.by} rejected it ({answer.through})" if answer.by else "nobody approved it in time"
    return (
        f"run {run.plan.run_id}: {who}, {answer.at:%Y-%m-%d %H:%M:%S} UTC. Nothing (more) was deleted. A new run asks"
        " again."
    )


def _refused(run: AskingRun, what: str) -> RefusedError:
    return RefusedError(
        f"run {run.plan.run_id}: {what}. Nothing (more) was deleted. Run approve first, or start a new run."
    )
