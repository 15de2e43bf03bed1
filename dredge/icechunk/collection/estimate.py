"""What a collection would free after an expiration: the mark and the listing, in this process, for a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from dredge.icechunk.collection import sets
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.live_files import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.expiration.plan import ExpirationPlan, Freed
from dredge.icechunk.history import History
from dredge.icechunk.ids import hashes_of_names
from dredge.storage import ObjectReader


def estimate(reader: ObjectReader, plan: ExpirationPlan) -> Freed:
    """Count what a collection would delete after a plan was applied, whatever its age.

    Reads every live snapshot and manifest and lists the repository, so it costs what a collection's dry run
    costs.

    Args:
        reader: on the repository.
        plan: for the repository as it is now.

    Raises:
        FormatError: a live file is missing or damaged.
    """
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
    """Give the live ids of a history by kind; spec 2 counts every snapshot that it lists."""
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
