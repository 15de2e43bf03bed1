"""The steps of a collection, in order; the plan of a run, and the continuation of a stopped local run.

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

import json
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dredge.approve.question import Question
from dredge.approve.records import AIRFLOW, TIME_OUT, Decision
from dredge.approve.step import Approvals, given_back
from dredge.errors import DredgeError
from dredge.icechunk.collection.bulk_delete import bulk_delete
from dredge.icechunk.collection.check_limits import check_limits, verify
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.list_candidates.step import list_candidates
from dredge.icechunk.collection.mark.step import mark
from dredge.icechunk.collection.outputs import (
    REPORT,
    ApproveOutput,
    BulkDeleteOutput,
    SaveReportOutput,
)
from dredge.icechunk.collection.report import build_report, make_question
from dredge.icechunk.collection.run import (
    PLAN,
    CollectionPlan,
    Run,
    RunState,
    StateStore,
    find_list,
    read_plan,
)
from dredge.icechunk.collection.save_report import save_report, write_report
from dredge.icechunk.maintenance import RUNS, make_lease, open_state
from dredge.icechunk.repository import spec_version
from dredge.inventory.manifest import Inventory, find_inventory
from dredge.runs import run as shared
from dredge.runs.clock import Clock, StoreClock, compare_store, utc_now
from dredge.runs.failures import closing_with, partial_after
from dredge.runs.lease import LeaseGrant, hand_over
from dredge.runs.payload import to_json
from dredge.runs.run import local_holder
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.runs.versions import CLEAN, choose_mode
from dredge.storage import ObjectWriter, StorageOptions, open_reader, open_writer
from dredge.storage.parallel import at_once
from dredge.storage.probe import demand_conditions
from dredge.undo.deletions import Deletions, read_deletions
from dredge.undo.ways import choose_way
from dredge.xid import new_descending_xid

__all__ = [
    "AIRFLOW",
    "TIME_OUT",
    "CollectConfig",
    "CollectionPlan",
    "Decision",
    "Question",
    "Run",
    "bulk_delete",
    "check_limits",
    "list_candidates",
    "mark",
    "save_report",
    "verify",
]

log = logging.getLogger("dredge")

_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question


def collect(
    config: CollectConfig,
    runner: TaskRunner | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> dict[str, Any]:
    """Do a whole collection, and return its report; a failed step raises its error after the report was written."""
    plan = plan_collection(config, options=options, clock=clock)
    run = Run.open(plan.run_uri, options, clock, plan)
    return to_its_end(run, runner or LocalRunner())


def to_its_end(run: Run, runner: TaskRunner) -> dict[str, Any]:
    """Do the remaining steps of a local run, write its report, and release its lease unless it awaits an answer."""
    deleted = 0
    with partial_after(lambda: _deleted_text(deleted)), given_back(run, find_question), run.going_on():
        with closing_with(lambda: save_report(run), "the report"):
            deleted = BulkDeleteOutput.of(run_steps(run, runner)).deleted_objects
        return build_report(run)


def run_steps(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps up to verify; returns the summary of bulk_delete. After an error call it again."""
    find_garbage(run, runner)
    approve(run)
    swept = bulk_delete(run, runner)
    with partial_after(lambda: _deleted_text(BulkDeleteOutput.of(swept).deleted_objects)):
        verify(run)
    return swept


def find_garbage(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps up to the guards; returns the summary of check_limits. A second call continues."""
    mark(run, runner)
    list_candidates(run, runner)
    return check_limits(run)


def put_question(run: Run) -> Question:
    """Write the question of a run that awaits approval, and its report so far; RefusedError without a question."""
    asked = find_question(run)
    return make_question(run, asked, SaveReportOutput.of(write_report(run)).page)


def read_report(run: Run) -> dict[str, Any]:
    """Read `report.json`; NotFoundError without one."""
    report: dict[str, Any] = run.folder.read_json(REPORT)
    return report


def release_lease(run: Run) -> None:
    """Release the lease, unless another run has taken it."""
    run.lease.release(run.plan.lease)


def _deleted_text(objects: int) -> str:
    return f"{objects:,} objects were deleted." if objects else ""


def plan_collection(
    config: CollectConfig,
    lease: LeaseGrant | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> CollectionPlan:
    """Plan a run, and write `plan.json` into a new run folder.

    Raises:
        NotFoundError: no repository.
        FormatError: the inventory is damaged.
        ConfigError: there is no such inventory, or the store does not support the undo way of the config.
        RefusedError: clocks differ too much, or the inventory is of another bucket, too old or incomplete.
        LeaseHeldError: another run works on the repository.
    """
    version = spec_version(open_reader(config.uri, options))
    state = open_state(config.uri, options)
    store = StoreClock(state, clock)
    now, _ = compare_store(store, clock, config.safety.clock_skew_seconds_max)
    demand_conditions(state)
    run_id = new_descending_xid(now)
    repository_lease = make_lease(state, config.safety.lease_seconds, store.now)
    grant = repository_lease.acquire(local_holder(run_id)) if lease is None else repository_lease.renew(lease)
    try:
        plan = _plan(config, version, run_id, now, grant, state, options)
        data = json.dumps(to_json(plan), indent=1, sort_keys=True).encode()
        open_writer(plan.run_uri, options).put_if_absent(PLAN, data)
    except DredgeError:
        if lease is None:  # the caller has no grant to release
            with suppress(DredgeError):
                repository_lease.release(grant)
        raise
    log.info("run %s of %s planned: cutoff %s, folder %s", run_id, plan.uri, plan.cutoff, plan.run_uri)
    return plan


def _plan(
    config: CollectConfig,
    version: int,
    run_id: str,
    now: datetime,
    grant: LeaseGrant,
    state: ObjectWriter,
    options: StorageOptions | None,
) -> CollectionPlan:
    run_uri = f"{(config.run_root or f'{config.uri.rstrip("/")}/{RUNS}').rstrip('/')}/{run_id}"
    with at_once() as ask:
        way = ask(choose_way, config.undo, config.uri, run_uri, options)
        records, stored = ask(read_deletions, state), ask(find_list, state, config.uri, now)
        current = StateStore(state, options).current(config.uri, version)
    mode, why = choose_mode(config.mode, config.clean_every_days, current, now)
    if mode != CLEAN and current.state is not None:
        if other := _swept_since(records.result(), current.state):
            mode, why = CLEAN, f"run {other} deleted since the run that it would build on"
        elif (pending := stored.result()).pending is None:
            mode, why = CLEAN, f"the pending list cannot be used: {pending.problem or 'it is missing'}"
    if current.problem:
        log.error(
            "the state of %s is unusable, so the run lists all objects: %s", config.uri, current.problem
        )
    log.info("run %s of %s is %s: %s", run_id, config.uri, mode, why)
    inventory, undo = _inventory(config, mode, now, options), way.result()
    log.info("run %s: undo is %s: %s", run_id, undo.way, undo.why)
    return CollectionPlan(
        run_id=run_id,
        uri=config.uri,
        spec_version=version,
        run_uri=run_uri,
        created_at=now,
        cutoff=_cutoff(now, config, inventory),
        mode=mode,
        why_mode=why,
        state=None if current.state is None else current.version,
        state_etag=current.etag,
        lease=grant,
        config=config,
        inventory=inventory,
        undo=undo,
    )


def _swept_since(records: Deletions, base: RunState) -> str | None:
    """A run with deletions after another run and without a state: chunks in the other run's counts may be missing."""
    later = (found.run_id for found in records.found if found.at >= base.started_at)
    unread = (run_id for run_id in records.unread if run_id < base.run_id)  # newer ids sort first
    return next((run_id for run_id in (*later, *unread) if run_id != base.run_id), None)


def _cutoff(now: datetime, config: CollectConfig, inventory: Inventory | None) -> datetime:
    # Objects written after the inventory's start wait for the next inventory.
    latest = now - timedelta(seconds=config.min_age_seconds)
    return latest if inventory is None or inventory.created_at is None else min(latest, inventory.created_at)


def _inventory(
    config: CollectConfig, mode: str, now: datetime, options: StorageOptions | None
) -> Inventory | None:
    if config.inventory is None or mode != CLEAN:
        return None
    age_max = timedelta(days=config.safety.inventory_days_max)
    found = find_inventory(config.inventory, config.uri, now, age_max, options).source
    log.info("chunks of %s are read from inventory %s, begun %s", config.uri, found.uri, found.created_at)
    return found


def resume_run(run_uri: str, uri: str, grant: LeaseGrant, options: StorageOptions | None = None) -> bool:
    """Let a planned collection continue under a new lease of the same holder; False for a run of another holder or
    another repository, or after a later lease. Raises ConfigError if there is no run.
    """
    plan = read_plan(run_uri, options)
    if plan.uri != uri or not hand_over(open_writer(run_uri, options), PLAN, grant):
        return False
    log.info("run %s continues under lease number %d", plan.run_id, grant.fencing)
    return True


def is_local(run: Run) -> bool:
    """Whether a run has no orchestrator."""
    return shared.is_local(run.plan)


def check_resumable(run: Run) -> None:
    """Check whether a local run could continue; read-only. Raises as `dredge.runs.run.check_resumable`."""
    plan = run.plan
    shared.check_resumable(
        run, plan.state_etag, lambda: StateStore(run.state, run.options).current(plan.uri, plan.spec_version)
    )


def reopen_run(run_uri: str, options: StorageOptions | None = None, clock: Clock = utc_now) -> Run:
    """Take the lease of a local run again, and open the run; raises as `dredge.runs.run.resume_local`."""
    run = Run.open(run_uri, options, clock)
    plan = run.plan
    shared.resume_local(
        run,
        plan.state_etag,
        lambda: StateStore(run.state, options).current(plan.uri, plan.spec_version),
        lambda grant: resume_run(run_uri, plan.uri, grant, options),
    )
    return Run.open(run_uri, options, clock)
