"""The steps of a collection, in order, under one roof.

    plan = plan_collection(config)          plan.json; everything later needs only its run_uri
    context = Context.open(plan.run_uri)
    mark(context, runner)                   what is live: refs → snapshots → manifests → chunks
    find_candidates(context, runner)        what the store holds besides, older than the cutoff
    check_limits(context)                   guards
    sweep(context, runner)                  looks again, then deletes (only reports in a dry run)
    verify(context)                         what was deleted is gone, what lives is there
    save_report(context)                    report.json; also for failed runs
    release_lease(context)

Every step is idempotent: it returns its stored summary when it is complete and what it read has not changed.
Nothing is deleted by any step but `sweep`.
"""

from __future__ import annotations

from typing import Any

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.guards import check_limits
from dredge.icechunk.collection.listing import find_candidates
from dredge.icechunk.collection.marking import mark
from dredge.icechunk.collection.plan import CollectionPlan, Context, plan_collection, resume_run
from dredge.icechunk.collection.report import REPORT, make_report, save_report
from dredge.icechunk.collection.sweeping import sweep
from dredge.icechunk.collection.verifying import verify
from dredge.runs.clock import Clock, utc_now
from dredge.runs.partial import partial_after
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage import StorageOptions

__all__ = [
    "CollectConfig",
    "CollectionPlan",
    "Context",
    "check_limits",
    "collect",
    "find_candidates",
    "mark",
    "plan_collection",
    "read_report",
    "release_lease",
    "resume_run",
    "run_steps",
    "save_report",
    "sweep",
    "verify",
]


def collect(
    config: CollectConfig,
    runner: TaskRunner | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> dict[str, Any]:
    """Do a whole collection.

    Args:
        config: what the user asks for; a dry run unless it says otherwise.
        runner: spreads the work; None does it in this process.
        options: how the driver reaches stores; tasks always read the environment.
        clock: this machine's clock.

    Returns:
        The report.

    Raises:
        DredgeError: a step could not be done; the report was written, and the lease given back.
    """
    context = Context.open(plan_collection(config, options=options, clock=clock).run_uri, options, clock)
    deleted = 0
    with partial_after(lambda: f"{deleted:,} objects were deleted." if deleted else ""):
        try:
            deleted = run_steps(context, runner or LocalRunner()).counts.get("deleted_objects", 0)
        finally:
            save_report(context)
            release_lease(context)
        return make_report(context)


def run_steps(context: Context, runner: TaskRunner) -> StepSummary:
    """Do every step of a planned run that is not done yet, up to verify; gives the sweep's summary.

    Raises:
        DredgeError: a step could not be done. Call it again; it goes on there.
    """
    mark(context, runner)
    find_candidates(context, runner)
    check_limits(context)
    swept = sweep(context, runner)
    deleted = swept.counts.get("deleted_objects", 0)
    with partial_after(lambda: f"{deleted:,} objects were deleted." if deleted else ""):
        verify(context)
    return swept


def read_report(context: Context) -> dict[str, Any]:
    """Read the report that `save_report` wrote, as the object of `report.json`.

    Raises:
        NotFoundError: there is none yet.
    """
    report: dict[str, Any] = context.folder.read_json(REPORT)
    return report


def release_lease(context: Context) -> None:
    """Give the right back; does nothing when it has gone to somebody else."""
    context.lease.release(context.plan.lease)
