"""The steps of a collection, in the order of the safety argument.

    lease = acquire_lease(config, holder)
    plan = plan_run(config, lease)       plan.json; later steps need only its run_uri
    run = Run.open(plan.run_uri)
    slice_listing(run, runner)           the objects in the store, listed in full
    mark_uncommitted(run)                the staged objects of branches
    list_committed(run, runner)          the objects of active commits
    subtract(run, runner)                the candidates
    check_limits(run)                    guards
    approve(run)                         a person's answer, if one is needed
    bulk_delete(run, runner)             re-check, then deletions (only a report in a dry run)
    verify(run)                          deleted objects are missing, live ones exist
    purge_old(run, runner)               deletions of earlier runs become final, with `purge_days`
    save_report(run)                     state, report.json, report.html, summary.json
    release_lease(run)

`save_report` writes the report of failed runs too; only a complete run advances the state. Every step is idempotent: it
returns its stored summary if it is complete and its inputs are unchanged. Only `bulk_delete` deletes candidates.
`restore`, `purge` and `collect_metadata` are runs with their own lease.
"""

# ruff: noqa: F401
from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dredge.approve.records import AIRFLOW, TIME_OUT, Decision
    from dredge.approve.step import Question, given_back
    from dredge.gc.approve import answer, approve, find_question
    from dredge.gc.bulk_delete.step import bulk_delete
    from dredge.gc.check_limits.step import check_limits
    from dredge.gc.config import GCConfig, PurgeConfig, RestoreConfig
    from dredge.gc.list_committed.step import list_committed
    from dredge.gc.mark_uncommitted import KVAccess
    from dredge.gc.mark_uncommitted.staging import mark_uncommitted
    from dredge.gc.metadata.collecting import collect_metadata
    from dredge.gc.metadata.config import MetadataConfig
    from dredge.gc.planning import (
        acquire_lease,
        plan_run,
        release_grant,
    )
    from dredge.gc.preflight import check
    from dredge.gc.run import Plan, Run, open_state
    from dredge.gc.save_report.step import save_report
    from dredge.gc.slice_listing.step import slice_listing
    from dredge.gc.subtract.step import subtract
    from dredge.gc.undo import purge_old, restore
    from dredge.gc.verify import verify
    from dredge.gc.workload import rows_of
    from dredge.lakefs import LakeFSClient
    from dredge.runs.clock import Clock
    from dredge.runs.payload import StepSummary
    from dredge.runs.run import check_resumable, is_local, release_lease, resume_run
    from dredge.runs.tasks import TaskRunner
    from dredge.storage import StorageOptions
else:
    _loading = threading.RLock()

    # The imports above happen at the first use of a name: a DAG file loads no step, and a task only its own.
    def __getattr__(name: str) -> Any:
        if name not in _modules():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Python refuses the import of a package and of its module at once in two threads (_DeadlockError).
        with _loading:
            globals()[name] = found = getattr(import_module(_modules()[name]), name)
        return found


@cache
def _modules() -> dict[str, str]:
    """Return the module of each name imported above for type checkers."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    imports = next(node.body for node in tree.body if isinstance(node, ast.If))
    return {alias.name: str(node.module) for node in imports for alias in node.names}  # type: ignore[attr-defined]


def load_all() -> None:
    """Load every step, in a process to be forked for tasks."""
    for name in _modules():
        getattr(sys.modules[__name__], name)


def load_steps() -> None:
    """Load the steps of a run, while its plan and its listing wait for the server and the store."""
    names = "slice_listing mark_uncommitted list_committed subtract check_limits approve bulk_delete verify save_report"
    for name in names.split():
        getattr(sys.modules[__name__], name)
    from dredge.runs.report import load_page

    load_page()


def run_steps(run: Run, runner: TaskRunner, purge: PurgeConfig | None = None) -> StepSummary:
    """Do the remaining steps of a planned run, and write the report, also of a failed run. `purge`: of the last step;
    None uses `purge_days`. Returns the summary of the report. Raises DredgeError: of the failed step."""
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
    """Read the stored `report.json` of a run. Raises NotFoundError: the run has not ended."""
    from dredge.gc.save_report.step import REPORT

    report: dict[str, Any] = run.folder.read_json(REPORT)
    return report


def put_question(run: Run) -> Question:
    """Make the question of a run awaiting approval, and write its current report. Raises RefusedError: the run has no
    question; LeaseHeldError: another run has taken over."""
    from dredge.gc.approve import make_question
    from dredge.gc.save_report.step import write_report

    return make_question(run, write_report(run).details["page"])


def resume(
    run_uri: str,
    runner: TaskRunner,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> StepSummary:
    """Resume a local run after its complete steps. Raises DredgeError: the run cannot be resumed, or a step failed."""
    from dredge.gc import steps
    from dredge.runs.clock import utc_now
    from dredge.runs.run import reopen

    return to_its_end(reopen(lambda: steps.Run.open(run_uri, options, client, clock or utc_now)), runner)


def collect(
    config: GCConfig,
    runner: TaskRunner,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> StepSummary:
    """Do a whole local run, without an orchestrator; arguments as for `resume`."""
    with planned(config, client, options, clock) as run:
        return to_its_end(run, runner)


@contextmanager
def planned(
    config: GCConfig,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> Iterator[Run]:
    """Plan a local run for the block; meanwhile its steps are loaded. Arguments as for `resume`."""
    from dredge.gc import steps
    from dredge.runs.clock import utc_now
    from dredge.runs.parts import BY_DIGEST, cache_parts
    from dredge.storage.parallel import at_once

    plan_run = steps.plan_run  # loaded first: its requests wait for no other step
    with cache_parts(BY_DIGEST), at_once() as ask:  # planning reads the files of the run before
        ask(load_steps)
        plan = plan_run(config, None, client, options, clock or utc_now)
        yield steps.Run.open(plan.run_uri, options, client, clock or utc_now, plan)


def purge(
    config: PurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock | None = None,
) -> StepSummary:
    """Make a mark without deletions, then purge copies and old versions proved not live by it. `holder`: of the lease;
    None is this purge alone. Raises ConfigError: no such run; RefusedError: the mark is not complete; else as
    `purge_old` and `plan_run`."""
    from dredge.gc import steps
    from dredge.gc.undo import collected_of, config_of_mark
    from dredge.lakefs import LakeFSClient
    from dredge.runs.clock import utc_now
    from dredge.runs.failures import closing_with, try_to

    server = client or LakeFSClient.from_env()
    if config.run is not None:  # a wrong run id fails before the mark
        collected = collected_of(config.repository, server, options)
        collected.open_run(collected.run_uri_of(config.run))
    marking = config_of_mark(config, server, options)
    grant = None if holder is None else steps.acquire_lease(marking, holder, server, options)
    try:
        plan = steps.plan_run(marking, grant, server, options, clock or utc_now)
    except BaseException:
        if grant is not None:
            end = grant
            try_to(lambda: steps.release_grant(marking, end, server, options), "releasing the lease")
        raise
    run = steps.Run.open(plan.run_uri, options, server, clock or utc_now, plan)
    with closing_with(lambda: steps.release_lease(run), "releasing the lease"):
        run_steps(run, runner, config)
    return steps.purge_old(run, runner, config)  # complete: returns its summary


def to_its_end(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps of a local run, and release its lease unless it awaits an answer. Raises DredgeError: a
    step failed."""
    from dredge.gc import steps

    with steps.given_back(run, steps.find_question):
        return run_steps(run, runner)
