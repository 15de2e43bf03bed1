"""What is asked and what was answered, as objects in the run folder that are written once and never changed.

    approve/<id>/request.json     what would be deleted, and until when that may be approved
    approve/<id>/approved.json    the first yes
    approve/<id>/rejected.json    the first no; it wins, whenever it came

The id is made from the digests of the plan, the candidates and the guards' result. Whatever was done again since, it
is another question: it has another id, and nobody has approved it. A store lets one conditional put win, so of two
people who say yes one stands in the record. A yes and a no are two objects: neither can overwrite the other, and a
no counts also after a yes. A yes is one to its question; a no is one to the run, whichever question it was about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from dredge.approve.output import ApproveOutput, GuardsOutput
from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.runs import chain
from dredge.runs.output import StepOutput
from dredge.runs.payload import from_file, to_json
from dredge.runs.run import PlannedRun
from dredge.runs.summary import StepSummary
from dredge.storage import ObjectReader, ObjectWriter

type Decision = Literal["approved", "rejected"]
AIRFLOW, TIME_OUT = "Airflow", "time-out"
"""Where somebody answered, or else by which command. Airflow knows who its users are; a command is told a name."""
_NO = "rejected.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person is asked; a payload.

    Attributes:
        run_id: of the run.
        plan: digest of its plan.
        candidates: digest of what would be deleted.
        guards: digest of what the guards found, and of what they hold back.
        objects: that would be deleted.
        size_bytes: their sizes together.
        why: a sentence that says why somebody is asked.
        approvers: ids of the users of Airflow who may approve; () is everybody, wherever.
        asked_at: the store's time.
        answer_until: the store's time from which on nobody may approve.
        sweep_until: the store's time from which on the run cannot be swept any more.
    """

    run_id: str
    plan: str
    candidates: str
    guards: str
    objects: int
    size_bytes: int
    why: str
    approvers: tuple[str, ...]
    asked_at: datetime
    answer_until: datetime
    sweep_until: datetime

    def may_approve(self, by: str, through: str) -> bool:
        """Whether somebody may say yes.

        Args:
            by: id of who says it.
            through: where.
        """
        return bool(by) and (not self.approvers or (through == AIRFLOW and by in self.approvers))

    @property
    def subject(self) -> dict[str, str]:
        """What it is about."""
        names = ("run_id", "plan", "candidates", "guards")
        return {name: getattr(self, name) for name in names}

    def expires_at(self, approved_at: datetime) -> datetime:
        """Until when a yes counts: as long again as it could be waited for, and no longer than the mark.

        Args:
            approved_at: when it was given.
        """
        return min(approved_at + (self.answer_until - self.asked_at), self.sweep_until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody said; a payload.

    Attributes:
        request: SHA-256 of the request's bytes.
        run_id: of the run.
        candidates: digest of what would be deleted.
        decision: approved or rejected.
        by: id of who said it; "" when nobody did in time.
        through: `AIRFLOW`, `TIME_OUT`, or the command of the collector's `ApproveOutput`.
        at: the store's time.
    """

    request: str
    run_id: str
    candidates: str
    decision: Decision
    by: str
    through: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was put, and what was said.

    Attributes:
        request: what was asked.
        digest: SHA-256 of its bytes.
        approved: the first yes; None without one.
        rejected: the first no; None without one.
    """

    request: Request
    digest: str
    approved: Answer | None
    rejected: Answer | None

    @property
    def answer(self) -> Answer | None:
        """What counts: a no before every yes."""
        return self.rejected or self.approved


def subject_of(
    run: PlannedRun[Any], summaries: Mapping[str, StepSummary], output: type[ApproveOutput]
) -> dict[str, str]:
    """What a question is about, from results that belong together.

    Args:
        run: this run.
        summaries: of the steps that made the candidates and asked the guards.
        output: of the collector's step approve; it names these steps.
    """
    return {
        "run_id": run.plan.run_id,
        "plan": chain.plan_digest(run.folder),
        "candidates": _digest(summaries, output.CANDIDATES),
        "guards": _digest(summaries, output.GUARDS),
    }


def _digest(summaries: Mapping[str, StepSummary], output: type[StepOutput]) -> str:
    return summaries[output.STEP].digest


def ask(run: PlannedRun[Any], subject: Mapping[str, str], guards: GuardsOutput, why: str) -> Asked:
    """Put a question, unless it was put already: then the first one stands, with its times.

    Args:
        run: this run.
        subject: of the question.
        guards: what they found.
        why: a sentence.
    """
    request = request_of(run, subject, guards, why, run.store_now())
    _put_once(run.folder.writer, f"{_place(subject)}/request.json", to_json(request))
    asked = read_asked(run, subject)
    if asked is None:
        raise FormatError(f"run {run.plan.run_id}: its request for approval is gone. Start a new run.")
    return asked


def request_of(
    run: PlannedRun[Any], subject: Mapping[str, str], guards: GuardsOutput, why: str, asked_at: datetime
) -> Request:
    """What a run asks; everything but the time follows from its plan and its results.

    Args:
        run: this run.
        subject: of the question.
        guards: what they found.
        why: a sentence.
        asked_at: the store's time.
    """
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
    """Read a question and what was said; None when it was not put.

    Raises:
        FormatError: a record is damaged, or is about something else than its name says.
    """
    reader, place = run.folder.writer, _place(subject)
    try:
        data = reader.get(f"{place}/request.json")
    except NotFoundError:
        return None
    request = from_file(Request, _loads(reader, f"{place}/request.json", data))
    if request.subject != dict(subject):
        raise FormatError(f"{reader.uri}/{place}/request.json is about another run or other candidates")
    # In this order: whoever says no after a yes was read is seen by the next look.
    approved = _read(reader, f"{place}/approved.json")
    rejected = next((_read(reader, key) for key in _rejections(reader, place)), None)
    return Asked(request, hashlib.sha256(data).hexdigest(), approved, rejected)


def is_rejected(run: PlannedRun[Any]) -> bool:
    """Whether somebody said no to the run; whatever the record says, its being there is a no."""
    return bool(_rejections(run.folder.writer))


def _rejections(reader: ObjectReader, place: str = "") -> list[str]:
    """Keys of every no to a run, that to one question first."""
    keys = [key for batch in reader.list(f"{ApproveOutput.STEP}/") for key in batch["key"].to_pylist()]
    found = [key for key in keys if key.endswith(f"/{_NO}")]
    return sorted(found, key=lambda key: key != f"{place}/{_NO}")


def record_answer(run: PlannedRun[Any], asked: Asked, decision: Decision, by: str, through: str) -> Asked:
    """Write down what somebody said, unless somebody said the same before.

    Args:
        run: this run.
        asked: the question.
        decision: approved or rejected.
        by: id of who said it; "" when nobody did in time.
        through: where it was said.

    Returns:
        The question with everything that was said.
    """
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
            f"run {run.plan.run_id}: the answer that was just written is gone. Start a new run."
        )
    return found


def _place(subject: Mapping[str, str]) -> str:
    text = json.dumps(dict(subject), sort_keys=True).encode()
    return f"{ApproveOutput.STEP}/{hashlib.sha256(text).hexdigest()[:16]}"


def _put_once(writer: ObjectWriter, key: str, value: object) -> None:
    try:
        writer.put_if_absent(key, json.dumps(value, sort_keys=True).encode())
    except ConflictError:
        # Somebody was first, or this was, and the answer to a first request was lost: what is there stands.
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
        raise FormatError(f"{reader.uri}/{key} is not JSON: {error}. Nothing was deleted.") from None
    return found
