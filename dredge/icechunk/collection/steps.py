"""The steps of a collection, in order, under one roof.

    plan = plan_collection(config)     plan.json; everything later needs only its run_uri
    run = Run.open(plan.run_uri)
    mark(run, runner)                  what is live: refs → snapshots → manifests → chunks
    list_candidates(run, runner)       what the store holds besides, older than the cutoff
    check_limits(run)                  guards
    approve(run)                       what a person says, where one has to be asked
    bulk_delete(run, runner)           looks again, then deletes (only reports in a dry run)
    verify(run)                        what was deleted is gone, what is live is there
    save_report(run)                   report.json, report.html; also for failed runs
    release_lease(run)

Every step is idempotent: it returns its stored summary when it is complete and what it read has not changed.
Nothing is deleted by any step but `bulk_delete`.
"""

from __future__ import annotations

from typing import Any

from dredge.approve.question import Question
from dredge.approve.records import AIRFLOW, TIME_OUT, Decision
from dredge.approve.step import given_back
from dredge.icechunk.collection.approve import answer, approve, find_question, make_question
from dredge.icechunk.collection.bulk_delete import bulk_delete
from dredge.icechunk.collection.check_limits import check_limits
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.list_candidates.step import list_candidates
from dredge.icechunk.collection.mark.step import mark
from dredge.icechunk.collection.outputs import REPORT, BulkDeleteOutput, SaveReportOutput
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
from dredge.runs.closing import closing_with
from dredge.runs.partial import partial_after
from dredge.runs.summary import StepSummary
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


def collect(
    config: CollectConfig,
    runner: TaskRunner | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> dict[str, Any]:
    """Do a whole collection.

    Returns:
        The report.

    Raises:
        DredgeError: a step could not be done; the report was written, and the lease given back.
    """
    plan = plan_collection(config, options=options, clock=clock)
    run = Run.open(plan.run_uri, options, clock, plan)
    return to_its_end(run, runner or LocalRunner())


def to_its_end(run: Run, runner: TaskRunner) -> dict[str, Any]:
    """Do the steps of a local run that are left, write its report, and give its lease back, unless it waits for an
    answer.

    Returns:
        The report.

    Raises:
        DredgeError: a step could not be done.
    """
    deleted = 0
    with partial_after(lambda: _deleted_text(deleted)), given_back(run, find_question), run.going_on():
        with closing_with(lambda: save_report(run), "the report"):
            deleted = BulkDeleteOutput.of(run_steps(run, runner)).deleted_objects
        return build_report(run)


def run_steps(run: Run, runner: TaskRunner) -> StepSummary:
    """Do every step of a planned run that is not done yet, up to verify.

    Returns:
        The summary of bulk_delete.

    Raises:
        DredgeError: a step could not be done. Call it again; it goes on there.
    """
    find_garbage(run, runner)
    approve(run)
    swept = bulk_delete(run, runner)
    with partial_after(lambda: _deleted_text(BulkDeleteOutput.of(swept).deleted_objects)):
        verify(run)
    return swept


def find_garbage(run: Run, runner: TaskRunner) -> StepSummary:
    """Do every step of a planned run that is not done yet, up to the guards. Deletes nothing.

    Returns:
        The summary of check_limits.

    Raises:
        DredgeError: a step could not be done. Call it again; it goes on there.
    """
    mark(run, runner)
    list_candidates(run, runner)
    return check_limits(run)


def put_question(run: Run) -> Question:
    """Word what a run asks that awaits approval, and write its report so far.

    Raises:
        RefusedError: it asks nothing.
        LeaseHeldError: another run has taken over.
    """
    return make_question(run, SaveReportOutput.of(write_report(run)).page)


def read_report(run: Run) -> dict[str, Any]:
    """Read the report that `save_report` wrote, as the object of `report.json`.

    Raises:
        NotFoundError: there is none yet.
    """
    report: dict[str, Any] = run.folder.read_json(REPORT)
    return report


def release_lease(run: Run) -> None:
    """Give the right back; does nothing when it has gone to somebody else."""
    run.lease.release(run.plan.lease)


def _deleted_text(objects: int) -> str:
    return f"{objects:,} objects were deleted." if objects else ""
