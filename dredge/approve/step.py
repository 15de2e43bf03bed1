"""Approve: the run goes on when a person said yes to its candidates, and ends when one said no.

why_asked? ── no ──→ nothing is done and nothing written
    │ yes
request.json ──→ answered? ── no ──→ awaiting_approval; done again when there is an answer
                    │ yes
                    └──→ approved: complete, and the sweep looks at the same records again
                         rejected: the run ends

The lease of a run that waits for an answer: while its question is open, no other run works on the repository.

Another run would ask about the same objects, or move on the state that this one builds on: then nobody could go on
with the approved run. That is for order only. What makes a late sweep safe is its re-check and the greatest age of a
mark.

What the sweep demands before it deletes for a run that had to ask: a yes to these very candidates, in time, and no
no. It is read afresh before each round of deleting, and a no is looked for while objects are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.approve.output import ApproveOutput, GuardsOutput, why_asked
from dredge.approve.records import (
    TIME_OUT,
    Answer,
    Asked,
    Decision,
    ask,
    is_rejected,
    read_asked,
    record_answer,
    request_of,
    subject_of,
)
from dredge.errors import AwaitingApprovalError, DredgeError, RefusedError, RejectedError
from dredge.runs.chain import check_chain, links_of
from dredge.runs.lease import Lease
from dredge.runs.perform import StepRecord
from dredge.runs.run import PlannedRun
from dredge.runs.summary import StepSummary
from dredge.runs.words import duration_text

log = logging.getLogger("dredge")


def keep_lease(run: PlannedRun[Any], until: datetime, take_back: bool = False) -> None:
    """Prolong a run's lease.

    Args:
        run: this run.
        until: the store's time.
        take_back: also a lease that was given back.

    Raises:
        LeaseHeldError: another run has it.
    """
    wait = max(until - run.store_now(), timedelta(seconds=1))
    Lease(run.state, wait, run.store_now).renew(run.plan.lease, take_back=take_back)


@contextmanager
def given_back(run: PlannedRun[Any], find_question: Callable[[PlannedRun[Any]], Asked]) -> Iterator[None]:
    """Give a local run's lease back at the end of some work; keep it while the run waits for an answer.

    Args:
        run: this run.
        find_question: of the collector; reads what the run asks.
    """
    try:
        yield
    except AwaitingApprovalError:
        try:
            keep_lease(run, find_question(run).request.answer_until)
        except DredgeError as error:
            log.warning("run %s waits, and does not hold others back: %s", run.plan.run_id, error)
        raise
    except BaseException:
        with suppress(DredgeError):  # it expires; the error of the work says what to do
            run.lease.release(run.plan.lease)
        raise
    run.lease.release(run.plan.lease)


type Veto = Callable[[], str]
"""Says in half a sentence who forbids to go on; "" for nobody."""


def approval_of(run: PlannedRun[Any], record: StepRecord, output: type[ApproveOutput]) -> Veto:
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


def check_approved(run: PlannedRun[Any], asked: Asked, answer: Answer, guards: GuardsOutput) -> None:
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


def rejected_text(run: PlannedRun[Any], answer: Answer) -> str:
    """Word a no."""
    who = f"{answer.by} rejected it ({answer.through})" if answer.by else "nobody approved it in time"
    return (
        f"run {run.plan.run_id}: {who}, {answer.at:%Y-%m-%d %H:%M:%S} UTC. Nothing (more) was deleted. A new run asks"
        " again."
    )


def _refused(run: PlannedRun[Any], what: str) -> RefusedError:
    return RefusedError(
        f"run {run.plan.run_id}: {what}. Nothing (more) was deleted. Run approve first, or start a new run."
    )


@dataclass(frozen=True, slots=True)
class Approvals:
    """What a collector's runs ask, and what is answered.

    Attributes:
        output: of the collector's step approve.
    """

    output: type[ApproveOutput]

    def approve(self, run: PlannedRun[Any]) -> StepSummary | None:
        """Ask for an approval where one is needed, and take the answer.

        Args:
            run: this run.

        Returns:
            The summary of an approved run; None when nobody has to be asked.

        Raises:
            AwaitingApprovalError: nobody has answered.
            RejectedError: somebody said no, or nobody said yes in time.
            RefusedError: the yes does not count, or results do not belong together.
        """
        guards = run.folder.read_summary(self.output.GUARDS.STEP)
        if guards is not None and not why_asked(run.plan, self.output.GUARDS.of(guards)):
            return None
        summary = run.step(self.output, lambda record: self._approve(run, record))
        # What was approved once stays done; a no that came since counts all the same.
        asked = self.find_question(run)
        if asked.rejected is not None:
            raise RejectedError(rejected_text(run, asked.rejected))
        return summary

    def answer(
        self, run: PlannedRun[Any], decision: Decision, by: str, through: str, question: str | None = None
    ) -> Asked:
        """Say yes or no to what a run asks. Of several the first one stands, and a no stands against every yes.

        Args:
            run: this run.
            decision: approved or rejected.
            by: id of who says it; "" when the time is over.
            through: where it is said.
            question: digest of the question that was shown; None where what the run asks now was shown.

        Returns:
            The question with everything that was said.

        Raises:
            RejectedError: it is a yes, and somebody said no before.
            RefusedError: the run asks nobody, or the yes does not count, or is one to what the run asked before. A no
                is taken in any case.
        """
        asked = self.find_question(run)
        if decision == "approved":
            if question not in (None, asked.digest):
                raise RefusedError(
                    f"run {run.plan.run_id}: what was shown to {by} is not what the run would delete now. Nothing was"
                    " done. Clear the task, which asks again."
                )
            if asked.rejected is not None:
                raise RejectedError(rejected_text(run, asked.rejected))
            _check_may_approve(run, asked, by, through)
        found = record_answer(run, asked, decision, by, through)
        if decision == "approved" and found.rejected is not None:
            raise RejectedError(rejected_text(run, found.rejected))
        return found

    def find_question(self, run: PlannedRun[Any]) -> Asked:
        """Read what a run asks now.

        Args:
            run: this run.

        Raises:
            RefusedError: it asks nothing, or its results do not belong together.
        """
        summaries = check_chain(run.folder, self.output.STEP, links_of(self.output.INPUTS))
        asked = read_asked(run, subject_of(run, summaries, self.output))
        if asked is None:
            raise RefusedError(f"run {run.plan.run_id} awaits no approval. Nothing was done.")
        return asked

    def _approve(self, run: PlannedRun[Any], record: StepRecord) -> None:
        check_chain(run.folder, self.output.STEP, links_of(self.output.INPUTS), record.inputs)
        guards = record.input(self.output.GUARDS)
        if guards.verdict not in ("passed", "awaiting_approval"):
            raise RefusedError(f"run {run.plan.run_id}: the guards did not pass, so nobody is asked.")
        subject = subject_of(run, record.inputs, self.output)
        asked = ask(run, subject, guards, why_asked(run.plan, guards))
        if asked.answer is None and run.store_now() >= asked.request.answer_until:
            asked = record_answer(run, asked, "rejected", "", TIME_OUT)
        record.counts.update(asked_objects=asked.request.objects, asked_bytes=asked.request.size_bytes)
        record.details.update(request_digest=asked.digest, approval=_facts(asked))
        if asked.rejected is not None:
            record.status = "rejected"
            record.error = RejectedError(rejected_text(run, asked.rejected))
        elif asked.approved is None:
            record.status = "awaiting_approval"
            record.error = AwaitingApprovalError(self._waiting_text(run, asked))
        else:
            _check(run, record, asked, asked.approved, guards)

    def _waiting_text(self, run: PlannedRun[Any], asked: Asked) -> str:
        request, uri, command = asked.request, run.folder.uri, self.output.COMMAND
        return (
            f"run {run.plan.run_id}: {request.why} It awaits approval until"
            f" {request.answer_until:%Y-%m-%d %H:%M:%S} UTC: `{command} approve {uri}` or `{command} reject {uri}`."
            " Nothing was deleted."
        )


def _check_may_approve(run: PlannedRun[Any], asked: Asked, by: str, through: str) -> None:
    request, now = asked.request, run.store_now()
    if not request.may_approve(by, through):
        who = f"{', '.join(request.approvers)}, in Airflow" if request.approvers else "somebody with a name"
        raise RefusedError(
            f"run {run.plan.run_id} may be approved by {who}, not by {by or 'nobody'} ({through}). Nothing was done."
        )
    if now >= request.answer_until:
        raise RefusedError(
            f"run {run.plan.run_id} could be approved until {request.answer_until:%Y-%m-%d %H:%M:%S} UTC. Nothing was"
            " done. Start a new run."
        )


def _check(
    run: PlannedRun[Any], record: StepRecord, asked: Asked, approved: Answer, guards: GuardsOutput
) -> None:
    try:
        check_approved(run, asked, approved, guards)
    except RefusedError as error:
        record.status, record.error = "refused", error


def _facts(asked: Asked) -> dict[str, Any]:
    """What `ApproveOutput.approval` gives."""
    request, said = asked.request, asked.answer
    facts: dict[str, Any] = {
        "state": "waiting" if said is None else said.decision,
        "why": request.why,
        "objects": request.objects,
        "bytes": request.size_bytes,
        "answer_until": request.answer_until.isoformat(),
    }
    if said is not None:
        facts |= {"by": said.by, "through": said.through, "at": said.at.isoformat()}
    return facts
