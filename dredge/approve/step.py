"""Approve: the run goes on when a person said yes to its candidates, and ends when one said no.

why_asked? ── no ──→ nothing is done and nothing written
    │ yes
request.json ──→ answered? ── no ──→ awaiting_approval; done again when there is an answer
                    │ yes
                    └──→ approved: complete, and the sweep looks at the same records again
                         rejected: the run ends
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dredge.approve.asking import AskingRun
from dredge.approve.needed import why_asked
from dredge.approve.output import ApproveOutput, GuardsOutput
from dredge.approve.proof import check_approved, rejected_text
from dredge.approve.records import (
    TIME_OUT,
    Answer,
    Asked,
    Decision,
    ask,
    read_asked,
    record_answer,
    subject_of,
)
from dredge.errors import AwaitingApprovalError, RefusedError, RejectedError
from dredge.runs.chain import check_chain, links_of
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary


@dataclass(frozen=True, slots=True)
class Approvals:
    """What a collector's runs ask, and what is answered.

    Attributes:
        output: of the collector's step approve.
    """

    output: type[ApproveOutput]

    def approve(self, run: AskingRun) -> StepSummary | None:
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
        self, run: AskingRun, decision: Decision, by: str, through: str, question: str | None = None
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

    def find_question(self, run: AskingRun) -> Asked:
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

    def _approve(self, run: AskingRun, record: StepRecord) -> None:
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

    def _waiting_text(self, run: AskingRun, asked: Asked) -> str:
        request, uri, command = asked.request, run.folder.uri, self.output.COMMAND
        return (
            f"run {run.plan.run_id}: {request.why} It awaits approval until"
            f" {request.answer_until:%Y-%m-%d %H:%M:%S} UTC: `{command} approve {uri}` or `{command} reject {uri}`."
            " Nothing was deleted."
        )


def _check_may_approve(run: AskingRun, asked: Asked, by: str, through: str) -> None:
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


def _check(run: AskingRun, record: StepRecord, asked: Asked, approved: Answer, guards: GuardsOutput) -> None:
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
