"""The steps of a collection, in order; functions to plan a run and to continue a stopped local run.

    plan = plan_collection(config)     plan.json; later steps need only its run_uri
    run = Run.open(plan.run_uri)
    mark(run, runner)                  live objects: refs → snapshots → manifests → chunks
    list_candidates(run, runner)       other objects in the store, older than the cutoff
    check_limits(run)                  guards
    approve(run)                       a person's answer, if approval is required
    bulk_delete(run, runner)           check again, then delete (a dry run only reports)
    verify(run)                        check the deletions, and that live objects exist
    save_report(run)                   report.json, report.html; also for failed runs
    release_lease(run)

Every step is idempotent: it returns its stored summary if it is complete and its inputs are unchanged. Only
`bulk_delete` deletes.

Restore and purge of its deletions (`dredge.undo`):

    restore                            chunks, then manifests, transaction logs and snapshots: referring objects last
    purge                              old copies and versions, right after a complete mark, except live objects
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from dredge.approve.records import AIRFLOW, TIME_OUT, Decision
from dredge.approve.step import Approvals, Question, given_back
from dredge.errors import RefusedError
from dredge.icechunk.collection import outputs
from dredge.icechunk.collection.absent import PRESENT
from dredge.icechunk.collection.bulk_delete import bulk_delete
from dredge.icechunk.collection.check_again import open_swept, refuse_alarmed
from dredge.icechunk.collection.check_limits import check_limits, verify
from dredge.icechunk.collection.config import CollectConfig, IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.collection.list_candidates.step import list_candidates
from dredge.icechunk.collection.mark.step import mark
from dredge.icechunk.collection.pinned import ids_outside_manifests
from dredge.icechunk.collection.run import (
    CollectionPlan,
    Run,
    RunState,
    StateStore,
    find_list,
    read_plan,
)
from dredge.icechunk.collection.save_report import build_report, make_question, save_report, write_report
from dredge.icechunk.ids import hash_ids, hashes_of_names
from dredge.icechunk.maintenance import RUNS, make_lease, open_state
from dredge.icechunk.preflight import check
from dredge.icechunk.repository import FOLDERS, OBJECT_FOLDERS, names_of, spec_version
from dredge.inventory.manifest import plan_inventory
from dredge.runs.clock import Clock, StoreClock, compare_store, utc_now
from dredge.runs.failures import closing_with, partial_after
from dredge.runs.lease import LeaseGrant
from dredge.runs.parts import BY_DIGEST, cache_parts
from dredge.runs.payload import StepSummary
from dredge.runs.pending.store import Stored
from dredge.runs.run import (
    PlannedRun,
    check_resumable,
    is_local,
    local_holder,
    release_lease,
    resume_run,
    write_plan,
)
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.runs.versions import CLEAN, Current, choose_mode
from dredge.sets.hashes import Hashes, contains, read_hashes, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import StorageOptions, open_reader
from dredge.storage.parallel import at_once
from dredge.storage.probe import demand_conditions
from dredge.undo import purge as purging
from dredge.undo import restore as restoring
from dredge.undo.deleted import Collected, SweptRun, swept_rows
from dredge.undo.deletions import Deletions, read_deletions
from dredge.undo.ways import choose_way
from dredge.xid import new_descending_xid, new_xid

__all__ = [
    "AIRFLOW",
    "TIME_OUT",
    "CollectConfig",
    "CollectionPlan",
    "Decision",
    "Question",
    "Run",
    "bulk_delete",
    "check",
    "check_limits",
    "check_resumable",
    "is_local",
    "list_candidates",
    "mark",
    "release_lease",
    "resume_run",
    "save_report",
    "verify",
]

log = logging.getLogger("dredge")

_APPROVALS = Approvals(outputs.ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question


def collect(
    config: CollectConfig,
    runner: TaskRunner | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> dict[str, Any]:
    """Do a whole collection, and return its report; a failed step raises its error after the report was written."""
    with cache_parts(BY_DIGEST):  # planning reads the files of the run before
        plan = plan_collection(config, options=options, clock=clock)
        run = Run.open(plan.run_uri, options, clock, plan)
        return to_its_end(run, runner or LocalRunner())


def to_its_end(run: Run, runner: TaskRunner) -> dict[str, Any]:
    """Do the remaining steps of a local run, write the report, and release the lease unless approval is pending."""
    deleted = 0
    with partial_after(lambda: _deleted_text(deleted)), given_back(run, find_question), run.going_on():
        with closing_with(lambda: save_report(run), "the report"):
            deleted = outputs.BulkDeleteOutput.of(run_steps(run, runner)).deleted_objects
        return build_report(run)


def run_steps(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps up to verify; returns the summary of bulk_delete. After an error call it again."""
    find_garbage(run, runner)
    approve(run)
    swept = bulk_delete(run, runner)
    with partial_after(lambda: _deleted_text(outputs.BulkDeleteOutput.of(swept).deleted_objects)):
        verify(run)
    return swept


def find_garbage(run: Run, runner: TaskRunner) -> StepSummary:
    """Do the remaining steps up to the guards; returns the summary of check_limits. After an error call it again."""
    mark(run, runner)
    list_candidates(run, runner)
    return check_limits(run)


def put_question(run: Run) -> Question:
    """Write a run's question and its report so far. Raises RefusedError if the run needs no approval."""
    asked = find_question(run)
    return make_question(run, asked, outputs.SaveReportOutput.of(write_report(run)).page)


def read_report(run: Run) -> dict[str, Any]:
    """Read `report.json`; NotFoundError without one."""
    report: dict[str, Any] = run.folder.read_json(outputs.REPORT)
    return report


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
        ConfigError: there is no such inventory, or the store does not support the configured undo.
        RefusedError: clocks differ too much, or the inventory is too old, incomplete, or of another bucket.
        LeaseHeldError: another run works on the repository.
    """
    version = spec_version(open_reader(config.uri, options))
    state = open_state(config.uri, options)
    store = StoreClock(state, clock)
    repository_lease = make_lease(state, config.safety.lease_seconds, store.now)
    with at_once() as ask:
        # A lease that others change from here on is not taken.
        held = ask(repository_lease.read) if lease is None else None
        # Before the lease: where another run replaces the state or the list meanwhile, this run's own fail.
        states = ask(StateStore(state, options).current, config.uri, version)
        deletions = ask(read_deletions, state)
        pending = ask(find_list, state, config.uri, store.now)
        now, _ = compare_store(store, clock, config.safety.clock_skew_seconds_max)
        run_id = new_descending_xid(now)
        root = config.run_root or f"{config.uri.rstrip('/')}/{RUNS}"
        run_uri = f"{root.rstrip('/')}/{run_id}"
        way = ask(choose_way, config.undo, config.uri, run_uri, options)
        demand_conditions(state)
    current, undo = states.result(), way.result()
    mode, why = _choose_mode(config, now, current, deletions.result(), pending.result())
    source = config.inventory if mode == CLEAN else None  # an optimized run lists no chunks
    inventory = plan_inventory(source, config.uri, now, config.safety.inventory_days_max, options)
    grant = (
        repository_lease.renew(lease)
        if lease is not None
        else repository_lease.acquire(local_holder(run_id), None if held is None else held.result)
    )
    plan = CollectionPlan(
        run_id=run_id,
        uri=config.uri,
        spec_version=version,
        run_uri=run_uri,
        created_at=now,
        cutoff=config.cutoff(now, None if inventory is None else inventory.created_at),
        mode=mode,
        why_mode=why,
        state=None if current.state is None else current.version,
        state_etag=current.etag,
        lease=grant,
        config=config,
        inventory=inventory,
        undo=undo,
    )
    write_plan(plan, plan.run_uri, options, repository_lease, keep_lease=lease is not None)
    log.info("run %s of %s is %s: %s. Undo is %s: %s", run_id, plan.uri, mode, why, undo.way, undo.why)
    return plan


def _choose_mode(
    config: CollectConfig, now: datetime, current: Current[RunState], records: Deletions, pending: Stored
) -> tuple[str, str]:
    if current.problem:
        log.error(
            "the state of %s cannot be used, so the run lists all objects: %s", config.uri, current.problem
        )
    mode, why = choose_mode(config.mode, config.clean_every_days, current, now)
    if mode != CLEAN and current.state is not None:
        if other := _swept_since(records, current.state):
            return CLEAN, f"run {other} has deleted objects after the run whose state would be used"
        if pending.pending is None:
            return CLEAN, f"the pending list cannot be used: {pending.problem or 'it is missing'}"
    return mode, why


def _swept_since(records: Deletions, base: RunState) -> str | None:
    """A run with deletions after another run and without a state: chunks in the other run's counts may be missing."""
    later = (found.run_id for found in records.found if found.at >= base.started_at)
    unread = (run_id for run_id in records.unread if run_id < base.run_id)  # newer ids sort first
    return next((run_id for run_id in (*later, *unread) if run_id != base.run_id), None)


def mark_for_purge(
    uri: str, lease: LeaseGrant, runner: TaskRunner, options: StorageOptions | None, clock: Clock
) -> Run:
    """Make a complete mark with all listings, and check that no live object is missing. Raises AlarmError: an alarm is
    open; RefusedError: a witness refuses the mark, or a live object is missing; FormatError: a live file is missing or
    damaged."""
    config = _config_of_mark(uri, options)
    run = Run.open(plan_collection(config, lease, options, clock).run_uri, options, clock)
    refuse_alarmed(run)
    found = find_garbage(run, runner).details["findings"]
    missing = [item["text"] for item in found if item["rule"] in PRESENT and item["verdict"] != "passed"]
    if missing:
        raise RefusedError(
            f"{uri}: {'; '.join(missing)}. Nothing was purged, because copies of these objects may exist."
        )
    return run


def _config_of_mark(uri: str, options: StorageOptions | None) -> CollectConfig:
    # It keeps at least what the last run with deletions kept.
    config, state = CollectConfig(uri=uri, mode=CLEAN), open_state(uri, options)
    last = StateStore(state, options).current(uri, spec_version(open_reader(uri, options))).state
    if last is None:
        return config
    found = read_plan(last.run_uri, options).config
    return replace(
        config,
        referring_repositories=found.referring_repositories,
        keep_lost_days=max(config.keep_lost_days, found.keep_lost_days),
    )


def find_live(marked: Run, purge: PlannedRun[Any], runs: Sequence[SweptRun]) -> LiveSet:
    """Return the deleted objects that the mark, the repository's configuration or a referring repository needs."""
    live = _live_ids(marked, ids_outside_manifests(marked))
    found: list[Hashes] = []
    for swept in runs:
        for part in swept.candidates:
            rows = swept_rows(swept.folder, part, swept.below)
            for kind, folder in FOLDERS.items():
                of_kind = rows.filter(pc.starts_with(rows["address"], folder))
                ids, is_id = hashes_of_names(names_of(kind, of_kind["address"].combine_chunks()))
                stays = contains(live[kind], ids) & is_id
                found.append(np.sort(of_kind["hash"].to_numpy()[stays]))
    part = write_hashes(purge.folder, "live-0.u64", unite(found))
    return LiveSet((LocatedSet(purge.folder.uri, ShardedSet(0, {0: part})),))


def _live_ids(marked: Run, outside: Collection[str]) -> dict[str, Hashes]:
    output = marked.folder.read_output(outputs.MarkOutput)
    assert output is not None
    parts = {kind: [output.live(kind)] for kind in OBJECT_FOLDERS if kind != "chunks"}
    parts["chunks"] = [part for shard in output.chunk_shards for part in shard]
    virtual = unite([read_hashes(marked.folder, output.virtual), hash_ids(outside)])
    return {
        kind: unite([virtual, *(read_hashes(marked.folder, part) for part in parts.get(kind, ()))])
        for kind in FOLDERS
    }


def restore(
    config: IcechunkRestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Restore the deletions of a run; raises as `dredge.undo.restore.restore`."""
    return restoring.restore(collected_of(config.repository, options), config, runner, holder, options, clock)


def purge(
    config: IcechunkPurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Delete old copies and old versions of earlier runs; raises as `dredge.undo.purge.purge`."""
    collected = collected_of(config.repository, options)
    holder = holder or f"purge {new_xid(clock())}"
    if config.dry_run:
        return purging.purge(collected, config, runner, holder, options, clock)
    lease = make_lease(collected.state)
    grant = lease.acquire(holder)
    try:
        marked = mark_for_purge(config.repository, grant, runner, options, clock)
    except BaseException:
        lease.release(grant)
        raise
    # The same holder takes the lease again: no other run comes between the mark and the purge.
    return purging.purge(collected, config, runner, holder, options, clock, partial(find_live, marked))


def collected_of(uri: str, options: StorageOptions | None = None) -> Collected:
    """Describe a repository for `dredge.undo`; NotFoundError if there is none."""
    spec_version(open_reader(uri, options))  # before a write: refuse a place without a repository
    return Collected(
        repository=uri,
        uri=uri,
        state=open_state(uri, options),
        runs_uri=f"{uri.rstrip('/')}/{RUNS}",
        open_run=partial(open_swept, uri=uri, options=options),
    )
