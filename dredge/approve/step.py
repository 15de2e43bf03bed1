"""Step approve: the run continues after an approval of its candidates, and ends after a rejection.

why_asked? ── no ──→ no request, no output
    │ yes
request.json ──→ answered? ── no ──→ awaiting_approval; repeated after an answer
                    │ yes
                    └──→ approved: complete, and the sweep reads the same records again
                         rejected: the run ends

The sweep deletes only with an approval of exactly these candidates, in time, and without a rejection. It reads the
records again before each round, and looks for a rejection while it deletes.

A waiting run keeps its lease: another run would ask about the same objects, or replace the state used by this run.
Safety does not depend on it: a late sweep is safe because of its re-check and the maximum age of a mark.

The text of a request is Markdown: subject and body. Each collector adds its own sections.
Names from a lake are chosen by uploaders, and are read by the person deciding about a deletion: they must not look like
other text, be a link, or count as HTML.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from dredge.approve.records import (
    TIME_OUT,
    ApproveOutput,
    Asked,
    Decision,
    GuardsOutput,
    ask,
    check_approved,
    read_asked,
    record_answer,
    rejected_text,
    subject_of,
    why_asked,
)
from dredge.errors import AwaitingApprovalError, DredgeError, RefusedError, RejectedError
from dredge.runs.lease import Lease
from dredge.runs.payload import StepSummary
from dredge.runs.report import size_text
from dredge.runs.run import PlannedRun, StepRecord, check_chain, collect_links
from dredge.undo.ways import WORDS

log = logging.getLogger("dredge")


def keep_lease(run: PlannedRun[Any], until: datetime, take_back: bool = False) -> None:
    """Prolong a run's lease."""
    wait = max(until - run.store_now(), timedelta(seconds=1))
    Lease(run.state, wait, run.store_now).renew(run.plan.lease, take_back=take_back)


@contextmanager
def given_back(run: PlannedRun[Any], find_question: Callable[[PlannedRun[Any]], Asked]) -> Iterator[None]:
    """Release a local run's lease at the end of its work; keep it while the run waits for an answer. `find_question`:
    of the collector; reads the request."""
    try:
        yield
    except AwaitingApprovalError:
        try:
            keep_lease(run, find_question(run).request.answer_until)
        except DredgeError as error:
            log.warning("run %s waits without a lease: %s", run.plan.run_id, error)
        raise
    except BaseException:
        with suppress(DredgeError):  # it expires; the error of the work says what to do
            run.lease.release(run.plan.lease)
        raise
    run.lease.release(run.plan.lease)


class Approvals(Struct, frozen=True):
    """The requests and answers of a collector's runs."""

    output: type[ApproveOutput]

    def approve(self, run: PlannedRun[Any]) -> StepSummary | None:
        """Ask for an approval if one is needed, and read the answer. Returns the summary of an approved run; None for a
        run without a request. Raises AwaitingApprovalError: no answer yet; RejectedError: rejected, or not approved in
        time; RefusedError: an invalid approval, or results of different runs."""
        guards = run.folder.read_output(self.output.GUARDS)
        if guards is not None and not why_asked(run.plan, guards):
            return None
        summary = run.step(self.output, lambda record: self._approve(run, record))
        # A completed step stays approved; a later rejection still counts.
        asked = self.find_question(run)
        if asked.rejected is not None:
            raise RejectedError(rejected_text(run, asked.rejected))
        return summary

    def answer(
        self, run: PlannedRun[Any], decision: Decision, by: str, through: str, question: str | None = None
    ) -> Asked:
        """Approve or reject the request of a run. The first answer stays; a rejection overrides approvals.

        Args:
            question: digest of the displayed request; None when the current request was displayed.

        Raises:
            RejectedError: an approval after a rejection.
            RefusedError: no request, an invalid approval, or an approval of an older request. A rejection is always
                accepted.
        """
        asked = self.find_question(run)
        if decision == "approved":
            if question not in (None, asked.digest):
                raise RefusedError(
                    f"run {run.plan.run_id}: its candidates changed after the request was shown to {by}. Nothing was"
                    " changed. Clear the task to ask again."
                )
            if asked.rejected is not None:
                raise RejectedError(rejected_text(run, asked.rejected))
            _check_may_approve(run, asked, by, through)
        found = record_answer(run, asked, decision, by, through)
        if decision == "approved" and found.rejected is not None:
            raise RejectedError(rejected_text(run, found.rejected))
        return found

    def find_question(self, run: PlannedRun[Any]) -> Asked:
        """Read the current request of a run."""
        summaries = check_chain(run.folder, self.output.STEP, collect_links(self.output.INPUTS))
        asked = read_asked(run, subject_of(run, summaries, self.output))
        if asked is None:
            raise RefusedError(f"run {run.plan.run_id} awaits no approval. Nothing was changed.")
        return asked

    def _approve(self, run: PlannedRun[Any], record: StepRecord) -> None:
        check_chain(run.folder, self.output.STEP, collect_links(self.output.INPUTS), record.inputs)
        guards = record.input(self.output.GUARDS)
        if guards.verdict not in ("passed", "awaiting_approval"):
            raise RefusedError(
                f"run {run.plan.run_id}: a guard refused the run, so there is no request for approval."
            )
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
            request, uri, command = asked.request, run.folder.uri, self.output.COMMAND
            record.error = AwaitingApprovalError(
                f"run {run.plan.run_id}: {request.why} It awaits approval until"
                f" {request.answer_until:%Y-%m-%d %H:%M:%S} UTC: `{command} approve {uri}` or `{command} reject {uri}`."
                " Nothing was deleted."
            )
        else:
            try:
                check_approved(run, asked, asked.approved, guards)
            except RefusedError as error:
                record.status, record.error = "refused", error


def _check_may_approve(run: PlannedRun[Any], asked: Asked, by: str, through: str) -> None:
    request, now = asked.request, run.store_now()
    if not request.may_approve(by, through):
        who = f"{', '.join(request.approvers)}, in Airflow" if request.approvers else "a person with a name"
        raise RefusedError(
            f"run {run.plan.run_id} may be approved by {who}, not by {by or 'a person without a name'} ({through})."
            " Nothing was changed."
        )
    if now >= request.answer_until:
        raise RefusedError(
            f"run {run.plan.run_id} could be approved until {request.answer_until:%Y-%m-%d %H:%M:%S} UTC. Nothing was"
            " changed. Start a new run."
        )


def _facts(asked: Asked) -> dict[str, Any]:
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


_MARKS = frozenset("`<>&|\\")
_LENGTH_MAX = 200


def plain(text: str) -> str:
    """A name as text: unprintable characters and the syntax of Markdown and HTML are escaped."""
    shown = "".join(_shown(character) for character in text[:_LENGTH_MAX])
    return f"{shown}…" if len(text) > _LENGTH_MAX else shown


def code(text: str) -> str:
    """A name as a code span, without Markdown links or emphasis."""
    return f"`{plain(text)}`"


def _shown(character: str) -> str:
    if character.isprintable() and character not in _MARKS:
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65_536 else f"\\U{number:08x}"
    )


# Examples of each kind.
EXAMPLES_MAX = 10


class Question(Struct, frozen=True):
    """A request to a person."""

    subject: str
    body: str
    approvers: tuple[str, ...]  # ids of the approvers; () is everybody
    answer_until: datetime  # the store's time; later answers count as a rejection
    wait: timedelta
    report: str
    digest: str  # of the request; an answer carries it


def word_question(
    run: PlannedRun[Any], asked: Asked, repository: str, lines: Iterable[str], report: str
) -> Question:
    """Format the request of a run, and keep the lease for its wait. `lines`: of the body; read after the lease is
    renewed."""
    request = asked.request
    wait = max(request.answer_until - run.store_now(), timedelta(seconds=1))
    keep_lease(run, request.answer_until + timedelta(seconds=run.plan.config.safety.lease_seconds))
    size = size_text(request.size_bytes)
    return Question(
        subject=f"Delete {request.objects:,} objects ({size}) of {plain(repository)}?",
        body="\n".join(lines),
        approvers=request.approvers,
        answer_until=request.answer_until,
        wait=wait,
        report=report,
        digest=asked.digest,
    )


def first_lines(
    run: PlannedRun[Any], asked: Asked, repository: str, guards: GuardsOutput, report: str
) -> Iterator[str]:
    """Format the reason, the subject and the consequences of a request."""
    plan, request = run.plan, asked.request
    yield f"{plain(request.why)}\n"
    yield f"- Repository {code(repository)}, a run in mode {plan.mode} ({plain(plan.why_mode)})"
    share = next((item["figure"] for item in guards.findings if item["rule"] == "max_percent"), None)
    percent = "" if share is None else f", {share:,} percent of the repository's objects"
    yield f"- To delete: {request.objects:,} objects, {size_text(request.size_bytes)}{percent}"
    yield f"- Undo ({plan.undo.way}): {WORDS[plan.undo.way]}; cost: {guards.undo.text}"
    yield f"- Without an answer by {request.answer_until:%Y-%m-%d %H:%M} UTC nothing is deleted"
    yield f"- Report: {code(report)}"
    yield f"- Run {code(plan.run_id)}, digest of the candidates {code(request.candidates[:16])}"


def kinds(title: str, found: Iterable[Mapping[str, Any]], words: Mapping[str, str]) -> Iterator[str]:
    """Format objects by kind, with examples; empty without objects."""
    shown = [item for item in found if item["objects"]]
    if not shown:
        return
    yield f"\n### {title}\n"
    for item in shown:
        why = item.get("why") or words.get(item["reason"], item["reason"])
        yield f"- {item['objects']:,} objects, {size_text(item['bytes'])}: {plain(why)}"
        for example in item["examples"][:EXAMPLES_MAX]:
            at = f": {code(example['path'])} on {code(example['branch'])}" if "path" in example else ""
            yield f"    - {code(example['address'])}{at}"
