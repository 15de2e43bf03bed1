"""Compaction of the index: what live snapshots and manifests name goes into few parts, and the rest is forgotten.

Every run adds parts. When there are too many small ones, or most of a part is about manifests that nothing needs any
more, a new head is written that names the parts that stay as they are and new ones for the rest, and says which heads
it stands for. Nothing here deletes: what is read no more `save_report.lifetimes` removes a week later, for runs that
loaded the index before.

What a manifest names is copied from the part that counts are taken from, so what is taken away later is what was added.
A part that cannot be read is left out: its manifests, when they are live, are read from the repository again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from dredge.errors import DredgeError, FormatError
from dredge.icechunk.collection.index import (
    ManifestIndex,
    SnapshotRow,
    read_manifest_rows,
    write_manifest_rows,
    write_snapshot_rows,
)
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state.base import open_base
from dredge.icechunk.format.manifests import NamedChunks
from dredge.runs.versions import Version

log = logging.getLogger("dredge")

PART_IDS = 2_000_000
"""About so many ids make a part of manifests."""
_SMALL_BYTES = PART_IDS * 8 // 4


def compact_index(run: Run, version: Version) -> int:
    """Unite small parts of the index and forget what nothing needs, when that is worth it.

    Args:
        run: it is complete, and holds the lease.
        version: of the state, which the run has just written: what it names is kept.

    Returns:
        How many parts of manifests are read no more; 0 when nothing was done.

    Raises:
        DredgeError: the state, or the index, could not be read or written. The index is as it was.
    """
    index = ManifestIndex.load(run.state)
    base = open_base(version, run.state, run.options)
    rows = base.rows
    live = {manifest for row in rows.values() for manifest in row.manifests}
    wanted = _wanted(index, live)
    going = _that_go(index, wanted, run.plan.config.tuning.index_parts_max)
    if going is None:
        return 0
    label = f"{run.folder.label}-compacted"
    written = [
        (
            write_manifest_rows(run.state, f"{label}-manifests-{number:05d}", batch),
            [name for name, _ in batch],
        )
        for number, batch in enumerate(_batches(run, index, wanted, going))
    ]
    kept = [(index.manifest_parts[name], index.manifests_of[name]) for name in wanted if name not in going]
    # What the mark did not see is for the next one: a run that was taken for lost may have written it since.
    unseen = index.snapshots(run.state, base.state.seen)
    # Beside the row of what either of two reads names, one of nothing: so the index still knows that they differed.
    contradicted = {*base.state.contradicted, *index.contradicted}
    named = [*rows.values(), *unseen.values(), *(SnapshotRow(name, (), ()) for name in contradicted)]
    snapshots = write_snapshot_rows(run.state, f"{label}-snapshots-00000", named)
    replaces = {*index.heads, *index.superseded, *index.unread_heads}
    run.lease.check(run.plan.lease)
    index.add(run.state, label, [snapshots], [*kept, *written], sorted(replaces))
    log.info("index: of %d parts of manifests %d were united into %d", len(wanted), len(going), len(written))
    return len(going)


def _wanted(index: ManifestIndex, live: set[str]) -> dict[str, list[str]]:
    """Give the live manifests of each part; one that several have is of the first, as when counts are made."""
    left = set(live)
    found: dict[str, list[str]] = {}
    for name in sorted(index.manifests_of):
        found[name] = [item for item in index.manifests_of[name] if item in left]
        left.difference_update(found[name])
    return found


def _that_go(index: ManifestIndex, wanted: dict[str, list[str]], parts_max: int) -> list[str] | None:
    """Choose the parts whose live manifests go into new ones; None when that is not worth it yet."""
    small = [name for name in wanted if index.manifest_parts[name].size_bytes < _SMALL_BYTES]
    dead = {name for name in wanted if 2 * len(wanted[name]) < len(index.manifests_of[name])}
    if len(small) > parts_max or len(index.heads) > parts_max:
        return sorted({*small, *dead})
    size_bytes = sum(index.manifest_parts[name].size_bytes for name in dead)
    return sorted(dead) if size_bytes >= _SMALL_BYTES else None


def _batches(
    run: Run, index: ManifestIndex, wanted: dict[str, list[str]], names: Sequence[str]
) -> Iterator[list[tuple[str, NamedChunks]]]:
    batch: list[tuple[str, NamedChunks]] = []
    for name in names:
        needed = set(wanted[name])
        if not needed:
            continue
        try:
            batch += [
                row for row in read_manifest_rows(run.state, index.manifest_parts[name]) if row[0] in needed
            ]
        except FormatError as error:
            log.warning("%s is not compacted: %s", name, error)
        if sum(len(ids) for _, chunks in batch for ids in chunks) >= PART_IDS:
            yield batch
            batch = []
    if batch:
        yield batch


def keep_small(run: Run, version: Version) -> None:
    """As `compact_index`; whatever goes wrong is a warning, because a large index is only slow."""
    try:
        compact_index(run, version)
    except DredgeError as error:
        log.warning("the index was not compacted; a later run does it: %s", error)
