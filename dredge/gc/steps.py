"""The steps of a collection, in the order of the safety argument, under one roof.

    lease = acquire_lease(config, holder)
    plan = plan_run(config, lease)                    plan.json; everything later needs only its run_uri
    context = Context.open(plan.run_uri)
    slice_listing(context, runner)                    what the store holds, written in full
    mark_uncommitted(context)                         what branches have staged
    list_committed(context, runner)                   what active commits name
    subtract(context, runner)                         candidates
    check_limits(context)                             guards
    bulk_delete(context, runner)                      re-check, then sweep (only reports in a dry run)
    verify(context)                                   what was deleted is gone, what lives is there
    save_report(context)                              report.json, report.html, summary.json; also for failed
    runs release_lease(context)

Every step is idempotent: it returns its stored summary when it is complete and what it read has not changed.
It raises an error of `dredge.errors` when it cannot go on; nothing is deleted by any step but `bulk_delete`.
"""

from __future__ import annotations

from dredge.gc.context import Context
from dredge.gc.plan import Plan
from dredge.gc.planning import acquire_lease, plan_run, release_lease
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner

__all__ = [
    "Context",
    "Plan",
    "acquire_lease",
    "bulk_delete",
    "check_limits",
    "list_committed",
    "mark_uncommitted",
    "plan_run",
    "release_lease",
    "save_report",
    "slice_listing",
    "subtract",
    "verify",
]


def slice_listing(context: Context, runner: TaskRunner) -> StepSummary:
    """List `data/`, all slices at once, and write every object older than the cutoff."""
    raise NotImplementedError


def mark_uncommitted(context: Context, runner: TaskRunner | None = None) -> StepSummary:
    """Read every page of the repository's uncommitted addresses."""
    raise NotImplementedError


def list_committed(context: Context, runner: TaskRunner) -> StepSummary:
    """Find the active commits and the addresses they name."""
    raise NotImplementedError


def subtract(context: Context, runner: TaskRunner) -> StepSummary:
    """Write the listed objects that nothing live names."""
    raise NotImplementedError


def check_limits(context: Context, runner: TaskRunner | None = None) -> StepSummary:
    """Ask every guard whether the candidates may be deleted."""
    raise NotImplementedError


def bulk_delete(context: Context, runner: TaskRunner) -> StepSummary:
    """Check again, then delete the candidates; in a dry run only say what would go."""
    raise NotImplementedError


def verify(context: Context, runner: TaskRunner | None = None) -> StepSummary:
    """List what was touched again, and look at a sample of what lives."""
    raise NotImplementedError


def save_report(context: Context) -> StepSummary:
    """Write the report of the run, whatever became of it."""
    raise NotImplementedError
