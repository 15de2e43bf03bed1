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
    purge_old(run, runner)                        what earlier runs left goes for good, where `purge_days` says so
    save_report(run)                              state, report.json, report.html, summary.json
    release_lease(run)

The end writes the report of failed runs too; only a complete run moves the state on. Every step is idempotent: it
returns its stored summary when it is complete and what it read has not changed. It raises an error of
`dredge.errors` when it cannot go on; nothing is deleted by any step but `bulk_delete`.

`restore` takes deletions of a run back; `purge` makes a mark and then makes old deletions final: each is a whole run of
its own, with its lease.
`collect_metadata`, which is about range and metarange files, is such a run as well.

A name is loaded when it is first used: a DAG file loads no step, and a task its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dredge.approve.question import Question
    from dredge.approve.records import AIRFLOW, TIME_OUT, Decision
    from dredge.gc.approve import answer, approve
    from dredge.gc.bulk_delete.step import bulk_delete
    from dredge.gc.check_limits.step import check_limits
    from dredge.gc.config import GCConfig
    from dredge.gc.list_committed.step import list_committed
    from dredge.gc.mark_uncommitted.kv_store import KVAccess
    from dredge.gc.mark_uncommitted.staging import mark_uncommitted
    from dredge.gc.metadata.collecting import collect_metadata
    from dredge.gc.metadata.config import MetadataConfig
    from dredge.gc.plan import Plan
    from dredge.gc.planning import acquire_lease, plan_run, release_grant, release_lease, resume_run
    from dredge.gc.preflight import check
    from dredge.gc.purge.config import PurgeConfig
    from dredge.gc.purge.step import purge_old
    from dredge.gc.restore.config import RestoreConfig
    from dredge.gc.restore.step import restore
    from dredge.gc.resuming import check_resumable, is_local
    from dredge.gc.run import Run, open_state
    from dredge.gc.save_report.step import save_report
    from dredge.gc.slice_listing.step import slice_listing
    from dredge.gc.subtract.step import subtract
    from dredge.gc.verify.step import verify
    from dredge.gc.workload import rows_of
    from dredge.lakefs import LakeFS
    from dredge.runs.clock import Clock
    from dredge.runs.summary import StepSummary
    from dredge.runs.tasks import TaskRunner
    from dredge.storage import StorageOptions

__all__ = [
    "AIRFLOW",
    "TIME_OUT",
    "Decision",
    "GCConfig",
    "KVAccess",
    "MetadataConfig",
    "Plan",
    "PurgeConfig",
    "Question",
    "RestoreConfig",
    "Run",
    "acquire_lease",
    "answer",
    "approve",
    "bulk_delete",
    "check",
    "check_limits",
    "check_resumable",
    "collect",
    "collect_metadata",
    "is_local",
    "list_committed",
    "mark_uncommitted",
    "open_state",
    "plan_run",
    "purge",
    "purge_old",
    "put_question",
    "read_report",
    "release_grant",
    "release_lease",
    "restore",
    "resume",
    "resume_run",
    "rows_of",
    "run_steps",
    "save_report",
    "slice_listing",
    "subtract",
    "to_its_end",
    "verify",
]

_PLACES = {
    "AIRFLOW": ".approve.records",
    "TIME_OUT": ".approve.records",
    "Decision": ".approve.records",
    "GCConfig": "config",
    "KVAccess": "mark_uncommitted.kv_store",
    "MetadataConfig": "metadata.config",
    "Plan": "plan",
    "Question": ".approve.question",
    "PurgeConfig": "purge.config",
    "RestoreConfig": "restore.config",
    "Run": "run",
    "acquire_lease": "planning",
    "open_state": "run",
    "answer": "approve",
    "approve": "approve",
    "bulk_delete": "bulk_delete.step",
    "check": "preflight",
    "check_limits": "check_limits.step",
    "check_resumable": "resuming",
    "collect_metadata": "metadata.collecting",
    "is_local": "resuming",
    "list_committed": "list_committed.step",
    "mark_uncommitted": "mark_uncommitted.staging",
    "plan_run": "planning",
    "purge_old": "purge.step",
    "release_grant": "planning",
    "release_lease": "planning",
    "restore": "restore.step",
    "resume_run": "planning",
    "rows_of": "workload",
    "save_report": "save_report.step",
    "slice_listing": "slice_listing.step",
    "subtract": "subtract.step",
    "verify": "verify.step",
}
"""The modules below `dredge.gc` where names live that are not defined here; with a dot in front, below `dredge`."""


if not TYPE_CHECKING:  # which knows the names, and would believe that there are others

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f".{_PLACES[name]}", "dredge.gc"), name)
        globals()[name] = found
        return found


def run_steps(run: Run, runner: TaskRunner, purge: PurgeConfig | None = None) -> StepSummary:
    """Do every step of a planned run that is not done yet, and write the report, also of a failed run.

    Args:
        run: it is planned.
        runner: spreads the tasks.
        purge: what its last step lets go; None is what `purge_days` says.

    Returns:
        The summary of the report.

    Raises:
        DredgeError: of the step that could not go on.
    """
    from dredge.gc import steps
    from dredge.runs.failures import try_to

    with run.going_on():
        try:
            steps.slice_listing(run, runner)
            steps.mark_uncommitted(run, runner)
            steps.list_committed(run, runner)
            steps.subtract(run, runner)
            steps.check_limits(run, runner)
            steps.approve(run)
            steps.bulk_delete(run, runner)
            steps.verify(run, runner)
            if purge is not None or run.plan.config.purge_days is not None:
                steps.purge_old(run, runner, purge)
        except Exception:
            try_to(lambda: steps.save_report(run), "the report")
            raise
        return steps.save_report(run)


def read_report(run: Run) -> dict[str, Any]:
    """Read the report that the end of a run wrote, as the object of `report.json`.

    Raises:
        NotFoundError: the run has not come to its end.
    """
    from dredge.gc.save_report.report import REPORT

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
    from dredge.gc.approve.question import make_question
    from dredge.gc.save_report.report import write_report

    return make_question(run, write_report(run).details["page"])


def resume(
    run_uri: str,
    runner: TaskRunner,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> StepSummary:
    """Go on with a run that `collect` began, from what is complete.

    Args:
        run_uri: URI of the run folder.
        runner: spreads the tasks.
        client: None reads the environment.
        options: None reads the environment.
        clock: this machine's clock; None is the real one.

    Raises:
        DredgeError: the run cannot go on, or one of its steps could not.
    """
    from dredge.gc.resuming import reopen_run
    from dredge.runs.clock import utc_now

    return to_its_end(reopen_run(run_uri, client, options, clock or utc_now), runner)


def collect(
    config: GCConfig,
    runner: TaskRunner,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> StepSummary:
    """Collect a repository from lease to report in one call, without an orchestrator.

    Args:
        config: what the user asks for.
        runner: spreads the tasks.
        client: None reads the environment.
        options: None reads the environment.
        clock: this machine's clock; None is the real one.
    """
    from dredge.gc import steps
    from dredge.runs.clock import utc_now

    plan = steps.plan_run(config, None, client, options, clock or utc_now)
    return to_its_end(steps.Run.open(plan.run_uri, options, client, clock or utc_now, plan), runner)


def purge(
    config: PurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> StepSummary:
    """Make a mark that deletes nothing, then let copies and old versions go that it shows as not live.

    Args:
        config: which; a dry run only looks.
        runner: spreads the work.
        holder: who takes the lease; None is this purge alone.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock; None is the real one.

    Returns:
        The summary of the purge.

    Raises:
        ConfigError: there is no such run.
        NotFoundError: there is no such repository.
        LeaseHeldError: another run works on the repository.
        AlarmError: live objects had been deleted, and nobody has acknowledged it.
        RefusedError: the mark is not complete, or the namespace is blocked.
        UnavailableError: something could not be deleted; the rest was.
        FormatError: a pin cannot be read, so nobody can tell what it holds.
    """
    from dredge.gc import steps
    from dredge.gc.purge.step import config_of_mark
    from dredge.gc.undo import collected_of
    from dredge.lakefs import LakeFSClient
    from dredge.runs.clock import utc_now
    from dredge.runs.failures import closing_with, try_to

    server = client or LakeFSClient.from_env()
    if config.run is not None:  # a wrong name is said before the mark
        collected = collected_of(config.repository, server, options)
        collected.open_run(collected.run_uri_of(config.run))
    marking = config_of_mark(config, server, options)
    grant = None if holder is None else steps.acquire_lease(marking, holder, server, options)
    try:
        plan = steps.plan_run(marking, grant, server, options, clock or utc_now)
    except BaseException:
        if grant is not None:
            end = grant
            try_to(lambda: steps.release_grant(marking, end, server, options), "giving the lease back")
        raise
    run = steps.Run.open(plan.run_uri, options, server, clock or utc_now, plan)
    with closing_with(lambda: steps.release_lease(run), "giving the lease back"):
        run_steps(run, runner, config)
    return steps.purge_old(run, runner, config)  # it is done: gives its summary


def to_its_end(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the steps of a local run that are left, and give its lease back, unless it waits for an answer.

    Args:
        run: planned, or reopened.
        runner: spreads the tasks.

    Raises:
        DredgeError: a step could not be done.
    """
    from dredge.approve.step import given_back
    from dredge.gc.approve import find_question

    with given_back(run, find_question):
        return run_steps(run, runner)
