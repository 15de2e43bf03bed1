"""Approval of a collection: the question, and its text (see `dredge.approve`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dredge.approve.question import EXAMPLES_MAX, Question, first_lines, kinds, word_question
from dredge.approve.records import Asked
from dredge.approve.step import Approvals
from dredge.icechunk.collection.kinds import FOLDERS, NAMES
from dredge.icechunk.collection.outputs import ApproveOutput, CheckLimitsOutput, ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.runs.output import StepOutput
from dredge.runs.words import size_text

_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question

_STAYS = {
    "pinned": "restored, and kept for now",
    "spared": "this run keeps all of its kind",
    "young": "younger than the cutoff",
    "waiting": "waits for another run",
}


def make_question(run: Run, report: str) -> Question:
    """Write the question of a run, and extend its lease for the time of the answer.

    Raises:
        RefusedError: the run has no question.
        LeaseHeldError: another run has taken over.
    """
    asked = find_question(run)
    repository = f"Icechunk repository {run.plan.uri}"
    return word_question(run, asked, repository, _lines(run, asked, report), report)


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    guards, listed = _read(run, CheckLimitsOutput), _read(run, ListCandidatesOutput)
    if guards is None or listed is None:  # another try does these steps again, and will ask
        return
    yield from first_lines(run, asked, run.plan.uri, guards, report)
    yield from kinds("What would be deleted", (_doomed(run, listed, kind) for kind in FOLDERS), words={})
    yield from _stays(listed)


def _read[O: StepOutput](run: Run, output: type[O]) -> O | None:
    summary = run.folder.read_summary(output.STEP)
    return None if summary is None else output.of(summary)


def _doomed(run: Run, listed: ListCandidatesOutput, kind: str) -> dict[str, Any]:
    examples: list[str] = []
    for part in listed.candidates(kind)[:1]:
        examples = run.folder.read_part(part, ["address"])["address"].slice(0, EXAMPLES_MAX).to_pylist()
    return {
        "why": f"unreachable {NAMES[kind]}",
        "objects": listed.count(kind, "candidates_objects"),
        "bytes": listed.count(kind, "candidates_bytes"),
        "examples": [{"address": address} for address in examples],
    }


def _stays(listed: ListCandidatesOutput) -> Iterator[str]:
    found = {why: _total(listed, figure) for figure, why in _STAYS.items()}
    if any(objects for objects, _ in found.values()):
        yield "\n### Unreachable objects that stay\n"
    for why, (objects, size_bytes) in found.items():
        if objects:
            yield f"- {objects:,} objects, {size_text(size_bytes)}: {why}"


def _total(listed: ListCandidatesOutput, figure: str) -> tuple[int, int]:
    return listed.total(f"{figure}_objects"), listed.total(f"{figure}_bytes")
