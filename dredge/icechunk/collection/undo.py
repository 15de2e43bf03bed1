"""Restore and purge of a repository; see `dredge.undo`.

restore    chunks, then manifests, transaction logs and snapshots: referring objects come last
purge      old copies and old versions, right after a complete mark, except objects that are live in that mark
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from dredge.errors import RefusedError
from dredge.icechunk.collection.absent import PRESENT
from dredge.icechunk.collection.check_again import open_swept, refuse_alarmed
from dredge.icechunk.collection.config import CollectConfig, IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.collection.outputs import MarkOutput
from dredge.icechunk.collection.pinned import ids_outside_manifests
from dredge.icechunk.collection.run import Run, StateStore, read_plan
from dredge.icechunk.collection.steps import find_garbage, plan_collection
from dredge.icechunk.ids import hash_ids, hashes_of_names
from dredge.icechunk.maintenance import RUNS, make_lease, open_state
from dredge.icechunk.repository import FOLDERS, OBJECT_FOLDERS, names_of, spec_version
from dredge.runs.clock import Clock, utc_now
from dredge.runs.lease import LeaseGrant
from dredge.runs.run import PlannedRun
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.runs.versions import CLEAN
from dredge.sets.hashes import Hashes, contains, read_hashes, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import StorageOptions, open_reader
from dredge.undo import purge as purging
from dredge.undo import restore as restoring
from dredge.undo.deleted import Collected, SweptRun, swept_rows
from dredge.xid import new_xid


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
            f"{uri}: {'; '.join(missing)}. Nothing was purged: copies of these objects may exist."
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
    """Return deleted objects that the mark finds live, or that the configuration or a referring repository names."""
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
    output = marked.folder.read_output(MarkOutput)
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
