"""Results of the guards and of the step approve, and requests and answers in the run folder.

Plan and guards decide whether a run needs an approval. The sweep computes this again, so no step can skip it.

Each request and answer is an object, written once and never changed.

    approve/<id>/request.json     the candidates' figures, and the deadline
    approve/<id>/approved.json    the first approval
    approve/<id>/rejected.json    the first rejection; it overrides an approval at any time

The id is made from the digests of the plan, the candidates and the guards' result. Repeated steps make another request
with another id and no approval. A conditional put lets one of two approvals win. Approval and rejection are two
objects, so neither can overwrite the other. An approval is for its request; a rejection is for the run, under any
request.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from msgspec import Struct

from dredge.approve.settings import ALWAYS, NEVER
from dredge.errors import ConflictError, FormatError, NotFoundError, RefusedError, RejectedError
from dredge.runs.folder import RunFolder
from dredge.runs.limits import Finding, worst
from dredge.runs.payload import Detail, StepOutput, StepSummary, from_file, to_json
from dredge.runs.report import duration_text
from dredge.runs.run import PlannedRun, StepRecord, plan_digest
from dredge.storage import ObjectReader, ObjectWriter
from dredge.undo.ways import UndoCost


class GuardsOutput(StepOutput):
    """The result of each guard, with the figures `deletable_objects` and `deletable_bytes`."""

    STEP = "check_limits"

    # Of all guards and limits: passed, awaiting_approval or refused.
    verdict: Detail[str] = Detail("verdict")
    # Of each guard, as JSON objects.
    findings: Detail[list[dict[str, Any]]] = Detail("findings")
    undo = Detail("undo", UndoCost)


class ApproveOutput(StepOutput):
    """The request to a person, and the answer. A run without a request has no such step."""

    STEP = "approve"
    GUARDS: ClassVar[type[GuardsOutput]]
    CANDIDATES: ClassVar[type[StepOutput]]  # the result with the candidates' digest
    COMMAND: ClassVar[str]  # of the terminal, followed by `approve` or `reject`

    # SHA-256 of the answered request.
    request_digest: Detail[str] = Detail("request_digest")
    # For reports: `state` ("waiting", "approved" or "rejected"), `why`, `objects`, `bytes`, `answer_until`; after an
    # answer also `by`, `through`, `at`.
    approval: Detail[dict[str, Any]] = Detail("approval")


GUARD = "guard.json"  # the findings of the guards, for people


def conclude(
    run: PlannedRun[Any], record: StepRecord, findings: Sequence[Finding], excused: Collection[str] = ()
) -> None:
    """End the step of the guards by their findings.

    A run beyond its limits asks for an approval, unless the setting is `never`. A dry run continues despite limits and
    the `excused` rules. Every other finding refuses the run: status and error of the record.
    """
    verdict, dry_run, wanted = worst(findings), run.plan.dry_run, run.plan.config.approval
    if verdict == "passed":
        return
    bad = [item for item in findings if item.verdict == verdict]
    message = f"run {run.plan.run_id}: {'; '.join(f'{item.rule}: {item.text}' for item in bad)}. Nothing was deleted."
    is_limit = verdict == "awaiting_approval"
    if dry_run and (is_limit or all(item.rule in excused for item in bad)):
        would = "await approval" if is_limit and wanted != NEVER else "be refused"
        record.warn(f"a run that deletes would {would}: {message}")
    elif not is_limit or wanted == NEVER:
        record.status = "refused"
        advice = (
            " Raise the limit, or let a person approve it (approval) if you want this." if is_limit else ""
        )
        record.error = RefusedError(f"{message} Read {run.folder.uri}/{GUARD}.{advice}")


def why_asked(plan: Any, guards: GuardsOutput) -> str:
    """The reason for an approval of this run, as a sentence; "" when none is needed."""
    wanted = plan.config.approval
    if plan.dry_run or wanted == NEVER or not guards.counts["deletable_objects"]:
        return ""
    if guards.verdict == "awaiting_approval":
        over = [
            f"{item['rule']}: {item['text']}"
            for item in guards.findings
            if item["verdict"] == "awaiting_approval"
        ]
        return f"More would be deleted than a limit allows: {'; '.join(over)}."
    return "Every run that deletes needs an approval." if wanted == ALWAYS else ""


def approval_inputs(
    plan: Any, folder: RunFolder, output: type[ApproveOutput]
) -> tuple[type[StepOutput], ...]:
    """The additional inputs of a sweep with an approval."""
    guards = folder.read_output(output.GUARDS)
    asked = guards is not None and why_asked(plan, guards)
    return (output,) if asked else ()


type Decision = Literal["approved", "rejected"]
# The origin of an answer: Airflow, the end of the wait, or a command. Airflow authenticates its users; for a command
# the name is an argument.
AIRFLOW, TIME_OUT = "Airflow", "time-out"
_NO = "rejected.json"


class Request(Struct, frozen=True, kw_only=True):
    """A request for approval; a payload."""

    run_id: str
    plan: str
    candidates: str  # digest of the candidates
    guards: str  # digest of the guards' result, including holds
    objects: int
    size_bytes: int
    why: str
    # ids of the Airflow users with the right to approve; () is everybody, everywhere
    approvers: tuple[str, ...]
    asked_at: datetime
    answer_until: datetime  # deadline of an approval, in the store's time
    sweep_until: datetime  # deadline of the sweep, in the store's time

    def may_approve(self, by: str, through: str) -> bool:
        """Whether a person may approve, through an origin of answers."""
        return bool(by) and (not self.approvers or (through == AIRFLOW and by in self.approvers))

    @property
    def subject(self) -> dict[str, str]:
        """The ids and digests of the request."""
        names = ("run_id", "plan", "candidates", "guards")
        return {name: getattr(self, name) for name in names}

    def expires_at(self, approved_at: datetime) -> datetime:
        """The expiry of an approval: after it, the waiting time again, and no later than the mark's."""
        return min(approved_at + (self.answer_until - self.asked_at), self.sweep_until)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer; a payload."""

    request: str  # SHA-256 of the request's bytes
    run_id: str
    candidates: str
    decision: Decision
    by: str  # id of the person; "" at the end of the wait
    through: str  # `AIRFLOW`, `TIME_OUT`, or the command of the collector's `ApproveOutput`
    at: datetime


class Asked(Struct, frozen=True):
    """A request with its answers."""

    request: Request
    digest: str
    approved: Answer | None
    rejected: Answer | None

    @property
    def answer(self) -> Answer | None:
        """The valid answer: a rejection overrides every approval."""
        return self.rejected or self.approved


def subject_of(
    run: PlannedRun[Any], summaries: Mapping[str, StepSummary], output: type[ApproveOutput]
) -> dict[str, str]:
    """The ids and digests of a request, from matching results."""
    return {
        "run_id": run.plan.run_id,
        "plan": plan_digest(run.folder),
        "candidates": _digest(summaries, output.CANDIDATES),
        "guards": _digest(summaries, output.GUARDS),
    }


def _digest(summaries: Mapping[str, StepSummary], output: type[StepOutput]) -> str:
    return summaries[output.STEP].digest


def ask(run: PlannedRun[Any], subject: Mapping[str, str], guards: GuardsOutput, why: str) -> Asked:
    """Write a request; an existing request stays, with its times."""
    request = request_of(run, subject, guards, why, run.store_now())
    _put_once(run.folder.writer, f"{_place(subject)}/request.json", to_json(request))
    asked = read_asked(run, subject)
    if asked is None:
        raise FormatError(f"run {run.plan.run_id}: its request for approval is missing. Start a new run.")
    return asked


def request_of(
    run: PlannedRun[Any], subject: Mapping[str, str], guards: GuardsOutput, why: str, asked_at: datetime
) -> Request:
    """The request of a run; all but the time follows from its plan and its results."""
    plan = run.plan
    sweep_until = plan.created_at + timedelta(hours=plan.config.safety.mark_age_hours_max)
    return Request(
        **subject,
        objects=guards.counts["deletable_objects"],
        size_bytes=guards.counts["deletable_bytes"],
        why=why,
        approvers=plan.config.approver_ids,
        asked_at=asked_at,
        answer_until=min(asked_at + timedelta(hours=plan.config.approval_hours), sweep_until),
        sweep_until=sweep_until,
    )


def read_asked(run: PlannedRun[Any], subject: Mapping[str, str]) -> Asked | None:
    """Read a request with its answers; None without a request."""
    reader, place = run.folder.writer, _place(subject)
    try:
        data = reader.get(f"{place}/request.json")
    except NotFoundError:
        return None
    request = from_file(Request, _loads(reader, f"{place}/request.json", data))
    if request.subject != dict(subject):
        raise FormatError(f"{reader.uri}/{place}/request.json is about another run or other candidates")
    # Approvals first: a rejection written in between is seen here or by the next reading.
    approved = _read(reader, f"{place}/approved.json")
    rejected = next((_read(reader, key) for key in _rejections(reader, place)), None)
    return Asked(request, hashlib.sha256(data).hexdigest(), approved, rejected)


def is_rejected(run: PlannedRun[Any]) -> bool:
    """Whether the run was rejected; the presence of the record is enough, for any content."""
    return bool(_rejections(run.folder.writer))


def _rejections(reader: ObjectReader, place: str = "") -> list[str]:
    keys = [key for batch in reader.list(f"{ApproveOutput.STEP}/") for key in batch["key"].to_pylist()]
    found = [key for key in keys if key.endswith(f"/{_NO}")]
    return sorted(found, key=lambda key: key != f"{place}/{_NO}")


def record_answer(run: PlannedRun[Any], asked: Asked, decision: Decision, by: str, through: str) -> Asked:
    """Write an answer, unless this decision was written before. Returns the request with its answers."""
    answer = Answer(
        request=asked.digest,
        run_id=asked.request.run_id,
        candidates=asked.request.candidates,
        decision=decision,
        by=by,
        through=through,
        at=run.store_now(),
    )
    subject = asked.request.subject
    _put_once(run.folder.writer, f"{_place(subject)}/{decision}.json", to_json(answer))
    found = read_asked(run, subject)
    if found is None or found.answer is None:
        raise FormatError(
            f"run {run.plan.run_id}: another process removed the answer after it was written. Start a new run."
        )
    return found


def _place(subject: Mapping[str, str]) -> str:
    text = json.dumps(dict(subject), sort_keys=True).encode()
    return f"{ApproveOutput.STEP}/{hashlib.sha256(text).hexdigest()[:16]}"


def _put_once(writer: ObjectWriter, key: str, value: object) -> None:
    try:
        writer.put_if_absent(key, json.dumps(value, sort_keys=True).encode())
    except ConflictError:
        # Another writer was first, or the response to our own first write was lost: the existing object is valid.
        return


def _read(reader: ObjectReader, key: str) -> Answer | None:
    try:
        return from_file(Answer, _loads(reader, key, reader.get(key)))
    except NotFoundError:
        return None


def _loads(reader: ObjectReader, key: str, data: bytes) -> object:
    try:
        found: object = json.loads(data)
    except ValueError as error:
        raise FormatError(
            f"{reader.uri}/{key} is not JSON: {error}. Start a new run. Nothing was deleted."
        ) from None
    return found


# Returns the reason to stop as half a sentence; "" without one.
type Veto = Callable[[], str]


def approval_of(run: PlannedRun[Any], record: StepRecord, output: type[ApproveOutput]) -> Veto:
    """Check the guards' verdict before a sweep, and the approval if the run needs one. Returns a check for a rejection
    during the deletion. Raises RejectedError: the run was rejected; RefusedError: a guard did not pass, no approval, an
    approval of other candidates, or an expired approval."""
    guards = record.input(output.GUARDS)
    why = why_asked(run.plan, guards)
    if guards.verdict != "passed" and not (guards.verdict == "awaiting_approval" and why):
        raise RefusedError(
            f"run {run.plan.run_id}: the guards did not pass. Nothing was deleted. Read {GUARD} of the run."
        )
    if not why:
        return lambda: ""
    subject = subject_of(run, record.inputs, output)
    asked = read_asked(run, subject)
    summary = record.inputs.get(output.STEP)
    if asked is None or summary is None:
        raise _refused(run, "its candidates are not approved")
    if asked.rejected is not None:
        raise RejectedError(rejected_text(run, asked.rejected))
    if asked.approved is None or output.of(summary).request_digest != asked.digest:
        raise _refused(run, "its candidates differ from the approved candidates")
    check_approved(run, asked, asked.approved, guards)
    return lambda: "the run was rejected" if is_rejected(run) else ""


def check_approved(run: PlannedRun[Any], asked: Asked, answer: Answer, guards: GuardsOutput) -> None:
    """Check that an approval is for this run's request, by an approver, and in time.

    The request is a file with the approvers and the deadline, so it must equal the request made from the plan and the
    guards' result.
    """
    request, now = asked.request, run.store_now()
    latest = now + timedelta(seconds=run.plan.config.safety.clock_skew_seconds_max)
    ours = request_of(run, request.subject, guards, why_asked(run.plan, guards), request.asked_at)
    if request != ours or not run.plan.created_at <= request.asked_at <= latest:
        raise _refused(run, "its request differs from the approved request")
    expires_at = request.expires_at(answer.at)
    if (answer.request, answer.run_id, answer.candidates, answer.decision) != (
        asked.digest,
        request.run_id,
        request.candidates,
        "approved",
    ):
        raise _refused(run, "its approval belongs to another run or to other candidates")
    if not request.may_approve(answer.by, answer.through):
        raise _refused(
            run,
            f"it was approved by {answer.by or 'a person without a name'} ({answer.through}), not an approver",
        )
    if not request.asked_at <= answer.at < min(request.answer_until, latest):
        raise _refused(run, "it was not approved in time")
    if now >= expires_at:
        raise _refused(run, f"its approval expired {duration_text(now - expires_at)} ago")


def rejected_text(run: PlannedRun[Any], answer: Answer) -> str:
    """Format a rejection."""
    who = f"{answer.by} rejected it ({answer.through})" if answer.by else "it was not approved in time"
    return (
        f"run {run.plan.run_id}: {who}, {answer.at:%Y-%m-%d %H:%M:%S} UTC. Nothing (more) was deleted. A new run asks"
        " again."
    )


def _refused(run: PlannedRun[Any], what: str) -> RefusedError:
    return RefusedError(
        f"run {run.plan.run_id}: {what}. Nothing (more) was deleted. Run approve first, or start a new run."
    )
