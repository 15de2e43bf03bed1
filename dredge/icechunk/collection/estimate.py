"""What a collection would free after an expiration: the mark and the listing, in this process, for a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.icechunk.collection import sets
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.live_files import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.expiration.plan import ExpirationPlan, Freed
from dredge.icechunk.history import History
from dredge.icechunk.ids import hashes_of_names
from dredge.storage import ObjectReader


def estimate(reader: ObjectReader, plan: ExpirationPlan, min_age: timedelta, now: datetime) -> Freed:
    """Count the objects that are unreachable after a plan was applied.

    Reads every live snapshot and manifest and lists the repository: the cost of a collection's dry run.

    Args:
        reader: on the repository.
        plan: for the repository as it is now.
        min_age: younger objects are kept for now.
        now: aware.

    Raises:
        FormatError: a live file is missing or damaged.
    """
    live, cutoff = live_ids(reader, plan.after), now - min_age
    counts: dict[str, int] = {}
    size_bytes = young_objects = young_bytes = 0
    youngest = cutoff
    for kind, prefix in OBJECT_FOLDERS.items():
        counts[kind] = 0
        for batch in reader.list(prefix):
            hashes, is_id = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))
            found = batch.filter(pa.array(is_id & ~sets.contains(live[kind], hashes)))
            young = found.filter(pc.greater_equal(found["last_modified"], pa.scalar(cutoff)))
            counts[kind] += found.num_rows
            size_bytes += pc.sum(found["size"]).as_py() or 0
            young_objects += young.num_rows
            young_bytes += pc.sum(young["size"]).as_py() or 0
            if young.num_rows:
                youngest = max(youngest, pc.max(young["last_modified"]).as_py())
    return Freed(
        snapshots=counts["snapshots"],
        manifests=counts["manifests"],
        chunks=counts["chunks"],
        transaction_logs=counts["transactions"],
        size_bytes=size_bytes,
        young_objects=young_objects,
        young_bytes=young_bytes,
        all_old_at=youngest + min_age if young_objects else None,
    )


def live_ids(reader: ObjectReader, history: History) -> Mapping[str, sets.Ids]:
    """Return the live ids of a history by kind; on spec 2 every listed snapshot counts."""
    named, virtual = named_ids(reader, history)
    return {kind: sets.unite([ids, virtual]) for kind, ids in named.items()}


def named_ids(reader: ObjectReader, history: History) -> tuple[Mapping[str, sets.Ids], sets.Ids]:
    """Return the ids that the files of a history name by kind, and those that locations of virtual chunks spell.

    Raises:
        FormatError: a live snapshot or manifest is missing or damaged.
    """
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
    return named, sets.unite(of_virtual)
