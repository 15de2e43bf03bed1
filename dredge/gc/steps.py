"""The steps of a collection, in the order of the safety argument, under one roof.

    lease = acquire_lease(config, holder)
    plan = plan_run(config, lease)                    plan.json; everything later needs only its run_uri
    run = Run.open(plan.run_uri)
    slice_listing(run, runner)                    what the store holds, written in full
    mark_uncommitted(run)                         what branches have staged
    list_committed(run, runner)                   what active commits name
    subtract(run, runner)                         candidates
    check_limits(run)                             guards
    approve(run)                                  what a person says, where one has to be asked
    bulk_delete(run, runner)                      re-check, then sweep (only reports in a dry run)
    verify(run)                                   what was deleted is gone, what lives is there
    save_report(run)                              state, report.json, report.html, summary.json
    release_lease(run)

The end writes the report of failed runs too; only a complete run moves the state on. Every step is idempotent: it
returns its stored summary when it is complete and what it read has not changed. It raises an error of
`dredge.errors` when it cannot go on; nothing is deleted by any step but `bulk_delete`.
"""

from __future__ import annotations

from typing import Any

from dredge.gc.approve.question import Question, make_question
from dredge.gc.approve.records import AIRFLOW, TIME_OUT, Decision
from dredge.gc.approve.step import answer, approve
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.check_limits.step import check_limits
from dredge.gc.config import GCConfig
from dredge.gc.list_committed.step import list_committed
from dredge.gc.mark_uncommitted.kv_access import KVAccess
from dredge.gc.mark_uncommitted.step import mark_uncommitted
from dredge.gc.plan import Plan
from dredge.gc.planning import acquire_lease, plan_run, release_grant, release_lease, resume_run
from dredge.gc.resuming import is_local, reopen_run
from dredge.gc.run import Run
from dredge.gc.save_report.report import REPORT, write_report
from dredge.gc.save_report.step import save_report
from dredge.gc.slice_listing.step import slice_listing
from dredge.gc.subtract.step import subtract
from dredge.gc.verify.step import verify
from dredge.gc.workload import rows_of
from dredge.lakefs import LakeFS
from dredge.runs.clock import Clock, utc_now
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions

__all__ = [
    "AIRFLOW",
    "TIME_OUT",
    "Decision",
    "GCConfig",
    "KVAccess",
    "Plan",
    "Question",
    "Run",
    "acquire_lease",
    "answer",
    "approve",
    "bulk_delete",
    "check_limits",
    "collect",
    "is_local",
    "list_committed",
    "mark_uncommitted",
    "plan_run",
    "put_question",
    "read_report",
    "release_grant",
    "release_lease",
    "resume",
    "resume_run",
    "rows_of",
    "run_steps",
    "save_report",
    "slice_listing",
    "subtract",
    "verify",
]


def run_steps(run: Run, runner: TaskRunner) -> StepSummary:
    """Do every step of a planned run that is not done yet, and write the report, also of a failed run.

    Returns:
        The summary of the report.

    Raises:
        DredgeError: of the step that could not go on.
    """
    try:
        slice_listing(run, runner)
        mark_uncommitted(run, runner)
        list_committed(run, runner)
        subtract(run, runner)
        check_limits(run, runner)
        approve(run)
        bulk_delete(run, runner)
        verify(run, runner)
    except Exception:
        save_report(run)
        raise
    return save_report(run)


def read_report(run: Run) -> dict[str, Any]:
    """Read the report that the end of a run wrote, as the object of `report.json`.

    Raises:
        NotFoundError: the run has not come to its end.
    """
    report: dict[str, Any] = run.folder.read_json(REPORT)
    return report


def put_question(run: Run) -> Question:
    """Word what a run asks that awaits approval, and write its report so far.

    Args:
        run: of which `approve` said so.

    Raises:
        RefusedError: it asks nothing.
        LeaseHeldError: another run has taken over.
    """
    return make_question(run, write_report(run).details["page"])


def resume(
    run_uri: str,
    runner: TaskRunner,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Go on with a run that `collect` began, from what is complete.

    Args:
        run_uri: URI of the run folder.
        runner: spreads the tasks.
        client: None reads the environment.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        DredgeError: the run cannot go on, or one of its steps could not.
    """
    run = reopen_run(run_uri, client, options, clock)
    try:
        return run_steps(run, runner)
    finally:
        release_lease(run)


def collect(
    config: GCConfig,
    runner: TaskRunner,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Collect a repository from lease to report in one call, without an orchestrator.

    Args:
        config: what the user asks for.
        runner: spreads the tasks.
        client: None reads the environment.
        options: None reads the environment.
        clock: this machine's clock.
    """
    plan = plan_run(config, None, client, options, clock)
    run = Run.open(plan.run_uri, options, client, clock)
    try:
        return run_steps(run, runner)
    finally:
        release_lease(run)
