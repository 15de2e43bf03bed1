"""A purge of Icechunk comes right after a complete mark of its own, and leaves what that mark shows as live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from dredge.errors import RefusedError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.check_again import refuse_alarmed
from dredge.icechunk.collection.check_limits import PRESENT
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.kinds import FOLDERS, OBJECT_FOLDERS, names_of
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.planning import plan_collection
from dredge.icechunk.collection.run import Run
from dredge.icechunk.ids import hashes_of_names
from dredge.runs.clock import Clock
from dredge.runs.lease import LeaseGrant
from dredge.runs.run import PlannedRun
from dredge.runs.tasks import TaskRunner
from dredge.runs.versions import CLEAN
from dredge.sets.hashes import Hashes, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import StorageOptions
from dredge.undo.deleted import SweptRun, swept_rows


def mark_for_purge(
    uri: str, lease: LeaseGrant, runner: TaskRunner, options: StorageOptions | None, clock: Clock
) -> Run:
    """Make a complete mark that lists everything, and check that nothing live is missing.

    Args:
        uri: the repository.
        lease: the right to work on it.
        runner: spreads the work.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        AlarmError: live objects had been deleted, and no person has acknowledged it.
        RefusedError: a witness of the past refuses the mark, or something live is missing.
        FormatError: a live file is missing or damaged.
    """
    from dredge.icechunk.collection.steps import find_garbage

    config = CollectConfig(uri=uri, mode=CLEAN)
    run = Run.open(plan_collection(config, lease, options, clock).run_uri, options, clock)
    refuse_alarmed(run)
    found = find_garbage(run, runner).details["findings"]
    missing = [item["text"] for item in found if item["rule"] in PRESENT and item["verdict"] != "passed"]
    if missing:
        raise RefusedError(f"{uri}: {'; '.join(missing)}. Nothing was purged: copies of it may be left.")
    return run


def find_live(marked: Run, purge: PlannedRun[Any], runs: Sequence[SweptRun]) -> LiveSet:
    """Give hashes of what runs deleted and the mark shows as live.

    Args:
        marked: run whose mark is complete.
        purge: its folder gets the hashes.
        runs: that deleted.
    """
    live = _live_ids(marked)
    found: list[Hashes] = []
    for swept in runs:
        for part in swept.candidates:
            rows = swept_rows(swept.folder, part, swept.below)
            for kind, folder in FOLDERS.items():
                of_kind = rows.filter(pc.starts_with(rows["address"], folder))
                ids, is_id = hashes_of_names(names_of(kind, of_kind["address"].combine_chunks()))
                stays = sets.contains(live[kind], ids) & is_id
                found.append(np.sort(of_kind["hash"].to_numpy()[stays]))
    part = write_hashes(purge.folder, "live-0.u64", unite(found))
    return LiveSet((LocatedSet(purge.folder.uri, ShardedSet(0, {0: part})),))


def _live_ids(marked: Run) -> dict[str, sets.Ids]:
    summary = marked.folder.read_summary(MarkOutput.STEP)
    assert summary is not None
    output = MarkOutput.of(summary)
    parts = {kind: [output.live(kind)] for kind in OBJECT_FOLDERS if kind != "chunks"}
    parts["chunks"] = [part for shard in output.chunk_shards for part in shard]
    virtual = sets.read_ids(marked.folder, output.virtual)
    return {
        kind: sets.unite([virtual, *(sets.read_ids(marked.folder, part) for part in parts.get(kind, ()))])
        for kind in FOLDERS
    }
