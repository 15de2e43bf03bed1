"""Live snapshots: their ancestors and their manifests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from dredge.errors import FormatError
from dredge.icechunk.collection.index import (
    ManifestIndex,
    SnapshotRow,
    read_snapshot_rows,
    snapshot_rows,
    unite_rows,
    write_snapshot_rows,
)
from dredge.icechunk.collection.outputs import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.repository import READS_AT_ONCE, SNAPSHOTS
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, partition_function
from dredge.storage import ObjectReader, exists
from dredge.storage.parallel import ordered_map


def with_ancestors(reader: ObjectReader, tips: Collection[str], history: Collection[str]) -> set[str]:
    """Add the ancestors of tips outside the history: files of spec 1 have the id of their parent."""
    live = set(tips)
    waiting = [snapshot for snapshot in live if snapshot not in history]
    while waiting:
        parents = set()
        for key, data in reader.get_many([SNAPSHOTS + snapshot for snapshot in waiting]):
            parent = parse_snapshot(data, key).parent_id
            if parent is not None and parent not in live:
                parents.add(parent)
        # Another tool may have collected an ancestor.
        waiting = [parent for parent in parents if exists(reader, SNAPSHOTS + parent)]
        live.update(waiting)
    return live


def ancestors_seen(
    tips: Collection[str], parents: Mapping[str, Collection[str]], released: Collection[str]
) -> set[str]:
    """The ancestors in the record of earlier marks: files of spec 2 have no parent id."""
    found: set[str] = set()
    waiting = list(tips)
    while waiting:
        parents_of = set(parents.get(waiting.pop(), ())).difference(found, released)
        found |= parents_of
        waiting += parents_of
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsTask:
    """Snapshots of a task, and the name of its part of the index."""

    index_part: str
    snapshots: list[str]


@partition_function
def read_snapshots(run: WorkerRun, threads: int, task: SnapshotsTask) -> PartInfo:
    """Read snapshot files, and write their manifests as a part of the index."""
    rows = list(snapshot_rows(run.open_store(), task.snapshots, threads))
    run.progress.add(len(rows))
    return write_snapshot_rows(run.open_state(), task.index_part, rows)


def index_snapshots(
    run: Run, runner: TaskRunner, known: Mapping[str, SnapshotRow], live: set[str]
) -> tuple[list[SnapshotRow], list[PartInfo]]:
    """Read live snapshots that `known` (from `read_index`) lacks; return all rows, and the new parts, which get a head
    after their manifests were read: a damaged read with wrong manifests must not keep later runs from a better read."""
    rows = dict(known)
    lacking = sorted(live - rows.keys())
    tuning, label = run.plan.config.tuning, run.folder.label
    chunks = in_chunks(lacking, -(-len(lacking) // tuning.snapshots_per_task))
    tasks = [
        SnapshotsTask(index_part=f"{label}-snapshots-{number:05d}", snapshots=ids)
        for number, ids in enumerate(chunks)
    ]
    threads = max(tuning.threads, READS_AT_ONCE)  # these files are small
    written = run.spread(runner, MarkOutput.STEP, read_snapshots, threads, tasks, "snapshots", len(lacking))
    for found in ordered_map(partial(read_snapshot_rows, run.state), written, tuning.threads):
        rows |= {row.snapshot: row for row in found}
    if missing := live - rows.keys():
        raise FormatError(
            f"{run.plan.uri}: {len(missing)} live snapshots were not read, such as {min(missing)}. Nothing was deleted;"
            " start another run."
        )
    return [rows[snapshot] for snapshot in sorted(live)], written


def read_index(run: Run) -> tuple[ManifestIndex, dict[str, SnapshotRow]]:
    """Read the index and its snapshots."""
    run.index = index = ManifestIndex.load(run.state)
    if run.base is None:
        return index, index.snapshots(run.state)
    later = index.snapshots(run.state, run.base.state.seen)
    return index, unite_rows([*run.base.rows.values(), *later.values()])
