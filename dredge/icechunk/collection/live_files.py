"""Read the manifests of live snapshots and the chunks of live manifests; estimate garbage without a run.

A missing or damaged file is an error and never skipped: its chunks would look like garbage.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import READ_AGAIN, SnapshotRow
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.expiration.plan import ExpirationPlan, Freed
from dredge.icechunk.format.manifests import NamedChunks, named_chunks
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.history import History
from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.repository import MANIFESTS, SNAPSHOTS, read_parsed
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map


def snapshot_rows(reader: ObjectReader, snapshots: Sequence[str], threads: int = 16) -> Iterator[SnapshotRow]:
    """Read the manifests of snapshots."""

    def parse(data: bytes, key: str) -> SnapshotRow:
        manifests = parse_snapshot(data, key).manifests
        return SnapshotRow(
            key.removeprefix(SNAPSHOTS),
            tuple(info.id for info in manifests),
            tuple(info.refs for info in manifests),
        )

    with _missing_is_damage(reader):
        yield from read_parsed(reader, [SNAPSHOTS + snapshot for snapshot in snapshots], parse, threads)


def refs_by_manifest(rows: Iterable[SnapshotRow]) -> dict[str, int]:
    """Collect the number of chunk references in each manifest, as recorded in the snapshots."""
    found: dict[str, int] = {}
    for row in rows:
        for manifest, count in zip(row.manifests, row.refs, strict=True):
            if found.setdefault(manifest, count) != count:
                raise FormatError(
                    f"{SNAPSHOTS}{row.snapshot} or another snapshot is damaged: manifest {manifest} has {count} chunk"
                    f" references in one and {found[manifest]} in the other. Nothing was deleted. Check them with"
                    f" Icechunk; if they are intact, {READ_AGAIN}."
                )
    return found


def manifest_rows(
    reader: ObjectReader, refs: Mapping[str, int], threads: int = 16, digests: dict[str, str] | None = None
) -> Iterator[tuple[str, NamedChunks]]:
    """Read the chunks of manifests in the order of the manifests' ids; `digests` gets the MD5 of each file's bytes."""
    # Fetching and decoding release the interpreter's lock. A decoded manifest can be large, so no more are decoded at
    # once than there are processors.
    decoding = threading.BoundedSemaphore(os.cpu_count() or 1)

    def read(manifest: str) -> tuple[str, NamedChunks]:
        key = MANIFESTS + manifest
        data = reader.get(key)
        if digests is not None:
            digests[manifest] = hashlib.md5(data, usedforsecurity=False).hexdigest()
        with decoding:
            return manifest, named_chunks(data, key, refs=refs[manifest])

    with _missing_is_damage(reader):
        yield from ordered_map(read, sorted(refs), threads)


@contextmanager
def _missing_is_damage(reader: ObjectReader) -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise FormatError(
            f"{reader.uri}: a live file is missing: {error}. Nothing was deleted. The repository is damaged:"
            " restore the file, or delete the refs that need it. If Icechunk finds no snapshot that needs it, the index"
            f" is damaged: {READ_AGAIN}."
        ) from None


def estimate(reader: ObjectReader, plan: ExpirationPlan) -> Freed:
    """Count the deletions of a collection of any age after an applied plan; costs as much as a dry run."""
    live = live_ids(reader, plan.after)
    counts: dict[str, int] = {}
    size_bytes = 0
    for kind, prefix in OBJECT_FOLDERS.items():
        counts[kind] = 0
        for batch in reader.list(prefix):
            hashes, is_id = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))
            dead = is_id & ~sets.contains(live[kind], hashes)
            counts[kind] += int(dead.sum())
            size_bytes += int(batch["size"].to_numpy()[dead].sum())
    return Freed(
        counts["snapshots"], counts["manifests"], counts["chunks"], counts["transactions"], size_bytes
    )


def live_ids(reader: ObjectReader, history: History) -> Mapping[str, sets.Ids]:
    """Read the live ids of a history by kind; spec 2 counts every listed snapshot."""
    live = set(history.snapshots) if history.spec_version == 2 else history.reachable()
    refs = refs_by_manifest(snapshot_rows(reader, sorted(live)))
    of_virtual: list[sets.Ids] = []

    def named_chunks() -> Iterator[sets.Ids]:
        for _, found in manifest_rows(reader, refs):
            of_virtual.append(found.virtual)
            yield found.native

    chunks = sets.unite_all(named_chunks())
    pruned = {log for entry in history.snapshots.values() for log in entry.pruned}
    named = {
        "snapshots": sets.of_names(live),
        "transactions": sets.of_names(live | pruned),
        "manifests": sets.of_names(refs),
        "chunks": chunks,
    }
    return {kind: sets.unite([ids, *of_virtual]) for kind, ids in named.items()}
