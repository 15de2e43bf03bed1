"""What mark hands to later steps."""

from __future__ import annotations

import json
from datetime import datetime

from dredge.icechunk.collection.witness.record import KNOWN
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.summary import PartInfo, StepOutput
from dredge.sets.live import CountedSet

SNAPSHOT_NAMES = "snapshots.json"
SNAPSHOT_ROWS = "snapshots.parquet"
NEW_MANIFESTS = "new-manifests.json"
PRUNED = "pruned.ids"
KEPT_MANIFESTS = "kept-manifests.json"
VIRTUAL = "virtual.ids"
COUNTED = "counted"
"""Folder of counts, beside lease and index: not a run's own, because later runs build on them."""
_CHUNKS = "chunks-"
_VIRTUAL = "virtual-"


class MarkOutput(StepOutput):
    """Everything that is live: sorted sets of ids, and figures."""

    STEP = "mark"

    def live(self, kind: str) -> PartInfo:
        """Set of the live ids of a kind; kind is snapshots, transactions or manifests."""
        return self.part(f"{kind}.ids")

    @property
    def pruned(self) -> PartInfo:
        """Set of the transaction logs that only the repo info of spec 2 names."""
        return self.part(PRUNED)

    @property
    def chunk_bits(self) -> int:
        """The first so many bits of a chunk's id say in which shard it is."""
        found: int = self.detail("chunk_bits")
        return found

    @property
    def chunk_shards(self) -> list[list[PartInfo]]:
        """Sets of live chunks, by shard; together the sets of a shard are all of its live chunks. Those that only
        locations of virtual chunks name (`is_virtual`) need not be there."""
        shards: list[list[PartInfo]] = [[] for _ in range(1 << self.chunk_bits)]
        for part in [*self.parts(_CHUNKS), *self.virtual_chunks]:
            shards[int(part.name.removesuffix(".ids").rpartition("-")[2])].append(part)
        return shards

    @property
    def virtual_chunks(self) -> list[PartInfo]:
        """Sets of the ids that locations of virtual chunks name, in a clean run."""
        return self.parts(_VIRTUAL)

    @property
    def virtual(self) -> PartInfo:
        """Set of all ids that locations of virtual chunks name, and perhaps of some that named since the last clean
        run: files of any kind may have them."""
        return self.part(VIRTUAL)

    @property
    def chunks(self) -> int:
        """How many ids the sets of live native chunks have; a chunk that several sets name counts as often."""
        return sum(part.rows for part in self.parts(_CHUNKS))

    @property
    def counted(self) -> CountedSet | None:
        """How many live manifests name each chunk, in the folder of lease and index; None in the dry run of a clean
        run, which needs no counts."""
        found = self.summary.details.get("counted")
        return None if found is None else from_json(CountedSet, found)

    @property
    def kept_manifests(self) -> PartInfo:
        """Live manifests that only kept snapshots name which no ref reaches: a JSON list of ids."""
        return self.part(KEPT_MANIFESTS)

    @property
    def snapshot_rows(self) -> PartInfo:
        """Rows of the live snapshots, for the next run (`state.base.SNAPSHOTS`)."""
        return self.part(SNAPSHOT_ROWS)

    @property
    def old_refs(self) -> set[tuple[str, str]]:
        """Label and tip of the refs of spec 1 in a repository of spec 2."""
        return {(label, tip) for label, tip in self.summary.details.get("old_refs", ())}

    @property
    def known(self) -> PartInfo | None:
        """What this mark leaves for the next one (`witness.record`); None in a report on a planned expiration."""
        found = self.parts(KNOWN)
        return found[0] if found else None

    @property
    def known_etag(self) -> str | None:
        """Tag of what the last mark left; None when there was nothing."""
        found: str | None = self.summary.details.get("known_etag")
        return found

    @property
    def known_is_damaged(self) -> bool:
        """Whether nobody knows what the last mark saw."""
        found: bool = self.summary.details.get("known_is_damaged", False)
        return found

    @property
    def contradicted(self) -> list[str]:
        """Live snapshots that named other manifests when they were read again; what either read names is live."""
        found: list[str] = self.detail("contradicted")
        return found

    @property
    def young_until(self) -> datetime | None:
        """When the last unneeded young snapshot reaches the minimum age; None without one."""
        found = self.summary.details.get("young_until")
        return None if found is None else datetime.fromisoformat(found)

    @property
    def seen(self) -> list[str]:
        """Names of the parts of the index whose snapshots this run knows."""
        found: list[str] = self.detail("seen")
        return found

    @property
    def new_manifests(self) -> PartInfo:
        """Live manifests that the run it builds on did not count (optimized runs): a JSON object by id, of the MD5 of
        the bytes that this run read ("" where an earlier one had read them), and the name of the part of the index
        that they were counted from."""
        return self.part(NEW_MANIFESTS)

    @property
    def snapshot_names(self) -> PartInfo:
        """Names of the live snapshots; read them with `read_live_snapshots`."""
        return self.part(SNAPSHOT_NAMES)


def chunk_set_name(task: int, shard: int, *, is_native: bool = True) -> str:
    """Name a set of live chunks, relative to the run's folder.

    Args:
        task: number of the task that writes it.
        shard: number of the shard.
        is_native: of native chunks; else of those that locations of virtual chunks name.
    """
    return f"{MarkOutput.STEP}/{_CHUNKS if is_native else _VIRTUAL}{task:05d}-{shard:04d}.ids"


def is_virtual(part: PartInfo) -> bool:
    """Whether a set of live chunks is of those that locations of virtual chunks name."""
    return part.name.startswith(f"{MarkOutput.STEP}/{_VIRTUAL}")


def read_live_snapshots(folder: RunFolder, mark: MarkOutput) -> set[str]:
    """Read the ids of the snapshots that the mark found live."""
    return set(json.loads(folder.read_bytes(mark.snapshot_names)))
