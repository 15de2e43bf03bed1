"""The steps of a collection, in order.

    plan = plan_collection(config)     plan.json; later steps need only its run_uri
    run = Run.open(plan.run_uri)
    mark(run, runner)                  live objects: refs → snapshots → manifests → chunks
    list_candidates(run, runner)       other objects in the store, older than the cutoff
    check_limits(run)                  guards
    approve(run)                       a person's answer, where the run must ask
    bulk_delete(run, runner)           re-check, then deletion (a dry run only reports)
    verify(run)                        check the deletions, and that live objects exist
    save_report(run)                   report.json, report.html; also for failed runs
    release_lease(run)

Every step is idempotent: it returns its stored summary if it is complete and its inputs are unchanged. Only
`bulk_delete` deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dredge.approve.question import EXAMPLES_MAX, Question, first_lines, kinds, word_question
from dredge.approve.records import AIRFLOW, TIME_OUT, Asked, Decision
from dredge.approve.step import Approvals, given_back
from dredge.icechunk.collection.bulk_delete import bulk_delete
from dredge.icechunk.collection.check_limits import check_limits
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.kinds import FOLDERS, NAMES
from dredge.icechunk.collection.list_candidates.step import list_candidates
from dredge.icechunk.collection.mark.step import mark
from dredge.icechunk.collection.outputs import (
    REPORT,
    ApproveOutput,
    BulkDeleteOutput,
    CheckLimitsOutput,
    ListCandidatesOutput,
    SaveReportOutput,
)
from dredge.icechunk.collection.planning import (
    check_resumable,
    is_local,
    plan_collection,
    reopen_run,
    resume_run,
)
from dredge.icechunk.collection.report import build_report
from dredge.icechunk.collection.run import CollectionPlan, Run
from dredge.icechunk.collection.save_report import save_report, write_report
from dredge.icechunk.collection.verify import verify
from dredge.runs.clock import Clock, utc_now
from dredge.runs.failures import closing_with, partial_after
from dredge.runs.rendering import size_text
from dredge.runs.summary import StepOutput, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage import StorageOptions

__all__ = [
    "AIRFLOW",
    "TIME_OUT",
    "CollectConfig",
    "CollectionPlan",
    "Decision",
    "Question",
    "Run",
    "answer",
    "approve",
    "bulk_delete",
    "check_limits",
    "check_resumable",
    "collect",
    "find_garbage",
    "is_local",
    "list_candidates",
    "mark",
    "plan_collection",
    "put_question",
    "read_report",
    "release_lease",
    "reopen_run",
    "resume_run",
    "run_steps",
    "save_report",
    "to_its_end",
    "verify",
]

_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question

_STAYS = {
    "pinned": "restored, and kept for now",
    "spared": "this run keeps all of its kind",
    "young": "younger than the cutoff",
    "waiting": "waits for another run",
}


def collect(
    config: CollectConfig,
    runner: TaskRunner | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> dict[str, Any]:
    """Do a whole collection, and return its report.

    Raises:
        DredgeError: a step failed; the report was written, and the lease released.
    """
    plan = plan_collection(config, options=options, clock=clock)
    run = Run.open(plan.run_uri, options, clock, plan)
    return to_its_end(run, runner or LocalRunner())


def to_its_end(run: Run, runner: TaskRunner) -> dict[str, Any]:
    """Do the remaining steps of a local run, write its report, and release its lease unless it awaits an answer.

    Raises:
        DredgeError: a step failed.
    """
    deleted = 0
    with partial_after(lambda: _deleted_text(deleted)), given_back(run, find_question), run.going_on():
        with closing_with(lambda: save_report(run), "the report"):
            deleted = BulkDeleteOutput.of(run_steps(run, runner)).deleted_objects
        return build_report(run)


def run_steps(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps up to verify, and return the summary of bulk_delete.

    Raises:
        DredgeError: a step failed; a second call continues there.
    """
    find_garbage(run, runner)
    approve(run)
    swept = bulk_delete(run, runner)
    with partial_after(lambda: _deleted_text(BulkDeleteOutput.of(swept).deleted_objects)):
        verify(run)
    return swept


def find_garbage(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps up to the guards, and return the summary of check_limits. Never deletes.

    Raises:
        DredgeError: a step failed; a second call continues there.
    """
    mark(run, runner)
    list_candidates(run, runner)
    return check_limits(run)


def put_question(run: Run) -> Question:
    """Write the question of a run that awaits approval, and its report so far.

    Raises:
        RefusedError: the run has no question.
        LeaseHeldError: another run has taken over.
    """
    return make_question(run, SaveReportOutput.of(write_report(run)).page)


def read_report(run: Run) -> dict[str, Any]:
    """Read `report.json`.

    Raises:
        NotFoundError: there is no report yet.
    """
    report: dict[str, Any] = run.folder.read_json(REPORT)
    return report


def release_lease(run: Run) -> None:
    """Release the lease, unless another run has taken it."""
    run.lease.release(run.plan.lease)


def _deleted_text(objects: int) -> str:
    return f"{objects:,} objects were deleted." if objects else ""


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
