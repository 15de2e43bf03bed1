"""List one range of a folder, and write the candidates in it.

    listed name ─┬─ no id in its canonical spelling ──> foreign: counted, never touched
                 ├─ live ─────────────────────────────> kept
                 ├─ not older than the cutoff ────────> young
                 ├─ of a kind that stays whole ───────> spared
                 ├─ brought back, and kept for now ───> pinned
                 └─ else ─────────────────────────────> candidate

A live id that was not listed is absent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.icechunk.collection import sets
from dredge.icechunk.collection.age import is_old_column
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.list_candidates.candidates import without_pinned, write_candidates
from dredge.icechunk.collection.list_candidates.ranges import NameRange
from dredge.icechunk.collection.list_candidates.unproved import unproved
from dredge.icechunk.collection.mark import is_virtual
from dredge.icechunk.collection.sets import Ids
from dredge.icechunk.ids import hashes_of_names
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.live import LocatedSet

ABSENT_MAX = 1000
"""Live objects that are not listed: so many of a kind are looked into."""
FIGURES = (
    "listed_objects",
    "listed_bytes",
    "candidates_objects",
    "candidates_bytes",
    "young_objects",
    "young_bytes",
    "spared_objects",
    "spared_bytes",
    "foreign",
    "absent",
    "pinned_objects",
    "pinned_bytes",
)
_FOREIGN_SHOWN = 3

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfig:
    """What all tasks need.

    Attributes:
        cutoff: only objects strictly older are candidates.
        candidate_rows: most rows of a part.
        live: sets of live snapshots, transaction logs and manifests, by kind.
        pruned: set of the transaction logs that only the repo info names.
        chunk_bits: the first so many bits of a chunk's id say in which shard it is.
        chunk_shards: sets of live chunks, by shard.
        kept_kinds: kinds of objects of which nothing is a candidate.
        pinned: what was brought back and is kept for now.
        new_manifests: which live manifests are new, in a run that lists no chunks (`MarkOutput.new_manifests`).
    """

    cutoff: datetime
    candidate_rows: int
    live: dict[str, PartInfo]
    pruned: PartInfo
    chunk_bits: int
    chunk_shards: list[list[PartInfo]]
    kept_kinds: list[str]
    pinned: tuple[LocatedSet, ...]
    new_manifests: PartInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTask:
    """One task.

    Attributes:
        kind: of the objects; says the folder.
        number: of the range in the folder; makes the names of the parts.
        low: first name of the range, inclusive; "" is open.
        high: exclusive; "" is open.
    """

    kind: str
    number: int
    low: str
    high: str

    @property
    def names(self) -> NameRange:
        """The names that are listed."""
        return NameRange(prefix=OBJECT_FOLDERS[self.kind], low=self.low, high=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """What a task found.

    Attributes:
        parts: of candidates.
        counts: `FIGURES` by name.
        foreign: keys of some foreign objects.
        absent: some ids that are live and not listed, as 16 hexadecimal digits.
        unproved: new manifests whose bytes nothing proves, each with the part of the index that it was counted from
            and the tag of its file.
    """

    parts: list[PartInfo]
    counts: dict[str, int]
    foreign: list[str]
    absent: list[str]
    unproved: dict[str, list[str]]


@partition_function
def list_range(run: WorkerRun, config: ListConfig, task: ListTask) -> ListResult:
    """List one range of a folder and write its candidates."""
    live = _live_in_range(run.folder, config, task)
    seen = np.zeros(len(live), dtype=np.bool_)
    found = _Found()
    digests = _new_manifests(run.folder, config, task)
    doubtful: dict[str, list[str]] = {}
    for batch in task.names.list(run.open_store()):
        hashes, is_id = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(task.names.prefix)))
        is_live = sets.contains(live, hashes) & is_id
        seen[np.searchsorted(live, hashes[is_live])] = True
        is_old = is_old_column(batch["last_modified"], config.cutoff)
        found.add(batch, is_id, is_live, is_old, keep_all=task.kind in config.kept_kinds)
        if digests:
            doubtful |= unproved(batch, task.names.prefix, digests)
        run.progress.add(batch.num_rows)
    candidates = found.take_candidates(config.pinned)
    absent = _that_must_be_there(run.folder, config, task, live[~seen])
    return ListResult(
        parts=write_candidates(run.folder, task.kind, task.number, candidates, config.candidate_rows),
        counts={**found.counts, "absent": len(absent)},
        foreign=found.foreign,
        absent=[f"{number:016x}" for number in absent[:ABSENT_MAX].tolist()],
        unproved=doubtful,
    )


def _new_manifests(folder: RunFolder, config: ListConfig, task: ListTask) -> dict[str, list[str]]:
    if task.kind != "manifests" or config.new_manifests is None:
        return {}
    found: dict[str, list[str]] = json.loads(folder.read_bytes(config.new_manifests))
    return found


@dataclass(slots=True)
class _Found:
    """What a listing has found so far."""

    candidates: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    foreign: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch, is_id: Mask, is_live: Mask, is_old: Mask, keep_all: bool) -> None:
        """Take in some listed objects; `keep_all` when none of the kind may be deleted."""
        unnamed = is_id & ~is_live
        nothing = np.zeros_like(unnamed)
        spared, candidates = (unnamed & is_old, nothing) if keep_all else (nothing, unnamed & is_old)
        sizes = batch["size"].to_numpy()
        self.counts.update(
            listed_objects=batch.num_rows, listed_bytes=int(sizes.sum()), foreign=int((~is_id).sum())
        )
        for name, mask in (("young", unnamed & ~is_old), ("candidates", candidates), ("spared", spared)):
            self.counts[f"{name}_objects"] += int(mask.sum())
            self.counts[f"{name}_bytes"] += int(sizes[mask].sum())
        left = max(0, _FOREIGN_SHOWN - len(self.foreign))
        self.foreign += batch["key"].filter(pa.array(~is_id)).to_pylist()[:left]
        if candidates.any():
            self.candidates.append(pa.Table.from_batches([batch]).filter(pa.array(candidates)))

    def take_candidates(self, pinned: Sequence[LocatedSet]) -> list[pa.Table]:
        """Give the candidates, but for those that are pinned, which are counted apart."""
        if not pinned or not self.candidates:
            return self.candidates
        going, held = without_pinned(pa.concat_tables(self.candidates), pinned)
        size_bytes = int(pc.sum(held["size"]).as_py() or 0)
        self.counts.update(pinned_objects=held.num_rows, pinned_bytes=size_bytes)
        self.counts.subtract({"candidates_objects": held.num_rows, "candidates_bytes": size_bytes})
        return [going] if going.num_rows else []


def _live_in_range(folder: RunFolder, config: ListConfig, task: ListTask) -> Ids:
    """Read the live ids of a task's range."""
    if task.kind != "chunks":
        return task.names.part_of(sets.read_ids(folder, config.live[task.kind]))
    pieces = [
        [sets.read_ids(folder, part) for part in config.chunk_shards[shard]]
        for shard in task.names.shards(config.chunk_bits)
    ]
    return task.names.part_of(np.concatenate(list(sets.unite_by_shard(pieces))))


def _that_must_be_there(folder: RunFolder, config: ListConfig, task: ListTask, absent: Ids) -> Ids:
    """Leave out what need not be there: the log of a snapshot, which roots of spec 1 do not have, and chunks that only
    locations of virtual chunks name, which may be another repository's."""
    if task.kind == "chunks" and len(absent):
        shards = [config.chunk_shards[shard] for shard in task.names.shards(config.chunk_bits)]
        native = [sets.read_ids(folder, part) for parts in shards for part in parts if not is_virtual(part)]
        return absent[sets.contains(sets.unite(native), absent)]
    if task.kind != "transactions" or not len(absent):
        return absent
    return absent[sets.contains(sets.read_ids(folder, config.pruned), absent)]
