"""List a range of a folder, and write the garbage in it.

    listed name ─┬─ not an id in canonical spelling ──> foreign: counted, never touched
                 ├─ live ─────────────────────────────> kept
                 ├─ not older than the cutoff ────────> young
                 ├─ of a kept kind ───────────────────> spared
                 ├─ restored, and kept for now ───────> pinned
                 └─ else ─────────────────────────────> found

A live id without a listed object is absent. Ranges of names tile a folder exactly; a range needs only its live ids:

    ids      20 characters of base32; the first characters are the first bits of the number
    bounds   one or two characters, low inclusive, high exclusive; "" is open
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.hashing import hash64
from dredge.icechunk.collection.absent import ABSENT_MAX
from dredge.icechunk.collection.outputs import FOUND, ListCandidatesOutput, is_virtual
from dredge.icechunk.ids import ALPHABET, hashes_of_names
from dredge.icechunk.repository import OBJECT_FOLDERS, OVERWRITTEN, is_old_column
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import WorkerRun, waiting_function
from dredge.sets.hashes import Hashes, contains, read_hashes, unite
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import ObjectReader
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.parallel import ordered_map

UNREACHABLE = "unreachable"
REASONS = dict.fromkeys(OBJECT_FOLDERS, UNREACHABLE) | {OVERWRITTEN: "overwritten"}
"""Reason of deletion by kind."""
SCHEMA = pa.schema(
    [
        LISTING_SCHEMA.field("key").with_name("address"),
        *list(LISTING_SCHEMA)[1:],
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""Columns of candidates: `address` is the key relative to the repository, `hash` its hash as in pins. A chunk found
without a listing has no ETag."""

_BITS_PER_CHAR = 5
_ID_BITS = 64
FIGURES = (
    *(
        f"{what}_{unit}"
        for what in ("listed", "candidates", "young", "spared", "pinned")
        for unit in ("objects", "bytes")
    ),
    "foreign",
    "absent",
)
_FOREIGN_SHOWN = 3
_LISTED_AT_ONCE = 32
_LIVE_LISTED_ALONE = 5_000
"""A range with more live ids is listed in pieces at once, because a listing returns its pages one after another."""


def without_pinned(listed: pa.Table, pinned: Sequence[LocatedSet]) -> tuple[pa.Table, pa.Table]:
    """Split listed objects: (unpinned, pinned)."""
    if not pinned or not listed.num_rows:
        return listed, listed.slice(0, 0)
    (held,) = in_any(pinned, [hash64(listed["key"])], its_shards_only=True)
    return listed.filter(pa.array(~held)), listed.filter(pa.array(held))


def write_candidates(
    folder: RunFolder, kind: str, number: int, listed: Sequence[pa.Table], rows: int
) -> list[PartInfo]:
    """Write found objects as parts."""
    if not listed:
        return []
    table = pa.concat_tables(listed).select(LISTING_SCHEMA.names)
    table = table.rename_columns(SCHEMA.names[: table.num_columns])
    whole = table.append_column("hash", pa.array(hash64(table["address"])))
    whole = (
        whole.append_column("reason", pa.repeat(REASONS[kind], table.num_rows)).cast(SCHEMA).combine_chunks()
    )
    return write_rows(folder, f"{FOUND}{kind}-{number:04d}", whole, rows)


def write_rows(folder: RunFolder, name: str, whole: pa.Table, rows: int) -> list[PartInfo]:
    """Write rows of candidates as parts."""
    return [
        folder.write_table(ListCandidatesOutput.STEP, part, whole.slice(start, rows), name, grouped=True)
        for part, start in enumerate(range(0, whole.num_rows, rows))
    ]


class ListTask(Struct, frozen=True, kw_only=True):
    """A range of names in the folder of a kind: `low` inclusive, `high` exclusive, "" is open. `number` is part of the
    names of its files."""

    kind: str
    number: int
    low: str
    high: str

    @property
    def prefix(self) -> str:
        """The folder."""
        return OBJECT_FOLDERS[self.kind]

    def list(self, reader: ObjectReader) -> Iterator[pa.RecordBatch]:
        """List the range."""
        # Both bounds of a listing are exclusive. A name that equals a bound is too short for an id, so the range
        # above may leave it out; the zero byte lets the range below have it, so that foreign names are counted once.
        yield from reader.list(
            self.prefix,
            start_after=self.prefix + self.low if self.low else "",
            stop_before=self.prefix + self.high + "\0" if self.high else "",
        )

    def list_at_once(self, reader: ObjectReader) -> Iterator[pa.RecordBatch]:
        """List the range in parallel, split by the next character."""
        first = self.low or ALPHABET[0] * len(self.high)
        bounds = [self.low, *(first + char for char in ALPHABET[1:]), self.high]
        ranges = [replace(self, low=low, high=high) for low, high in pairwise(bounds)]
        for pages in ordered_map(lambda names: list(names.list(reader)), ranges, _LISTED_AT_ONCE):
            yield from pages

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the largest 64-bit number of an id in the range."""
        low = _number(self.low) if self.low else 0
        high = _number(self.high) - 1 if self.high else (1 << _ID_BITS) - 1
        return low, high

    def shards(self, bits: int) -> range:
        """Return the numbers of the shards that may have ids of the range, for 2**bits shards."""
        low, high = self.numbers
        return range(low >> (_ID_BITS - bits), (high >> (_ID_BITS - bits)) + 1)

    def part_of(self, ids: Hashes) -> Hashes:
        """Select the ids of a sorted set in the range."""
        low, high = self.numbers
        start = int(np.searchsorted(ids, np.uint64(low)))
        stop = int(np.searchsorted(ids, np.uint64(high), side="right"))
        return ids[start:stop]


def bounds_for(expected: int, keys_per_task: int, is_remote: bool) -> list[str]:
    """Choose the bounds between the ranges of a folder; the first and the last range are open."""
    if expected <= keys_per_task or not is_remote:
        return ["", ""]
    if expected <= keys_per_task * len(ALPHABET):
        return ["", *ALPHABET[1:], ""]
    return ["", *sorted(first + second for first in ALPHABET for second in ALPHABET)[1:], ""]


def _number(prefix: str) -> int:
    value = 0
    for char in prefix:
        value = value << _BITS_PER_CHAR | ALPHABET.index(char)
    return value << (_ID_BITS - _BITS_PER_CHAR * len(prefix))


type Mask = npt.NDArray[np.bool_]


class ListConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks."""

    cutoff: datetime
    candidate_rows: int
    live: dict[str, PartInfo]  # sets of live snapshots, transaction logs and manifests, by kind
    pruned: PartInfo  # set of the transaction logs in the repo info only
    chunk_bits: int  # the first so many bits of a chunk's id are its shard
    chunk_shards: list[list[PartInfo]]
    kept_kinds: list[str]
    pinned: tuple[LocatedSet, ...]
    # New live manifests, in a run without a listing of chunks (`MarkOutput.new_manifests`).
    new_manifests: PartInfo | None


class ListResult(Struct, frozen=True, kw_only=True):
    """Found objects of a range."""

    parts: list[PartInfo]
    counts: dict[str, int]  # `FIGURES` by name
    foreign: list[str]
    absent: list[str]  # some absent ids, as 16 hexadecimal digits
    # New manifests with unproved bytes, each with its part of the index and the tag of its file.
    unproved: dict[str, list[str]]


@waiting_function
def list_range(run: WorkerRun, config: ListConfig, task: ListTask) -> ListResult:
    """List a range of a folder, and write its garbage."""
    live = _live_in_range(run.folder, config, task)
    seen = np.zeros(len(live), dtype=np.bool_)
    found = _Found()
    digests = _new_manifests(run.folder, config, task)
    doubtful: dict[str, list[str]] = {}
    reader = run.open_store()
    many = reader.is_remote and len(live) > _LIVE_LISTED_ALONE
    for batch in task.list_at_once(reader) if many else task.list(reader):
        hashes, is_id = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(task.prefix)))
        is_live = contains(live, hashes) & is_id
        seen[np.searchsorted(live, hashes[is_live])] = True
        is_old = is_old_column(batch["last_modified"], config.cutoff)
        found.add(batch, is_id, is_live, is_old, keep_all=task.kind in config.kept_kinds)
        if digests:
            doubtful |= unproved(batch, task.prefix, digests)
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


class _Found(Struct):
    candidates: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    foreign: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch, is_id: Mask, is_live: Mask, is_old: Mask, keep_all: bool) -> None:
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
        if not pinned or not self.candidates:
            return self.candidates
        going, held = without_pinned(pa.concat_tables(self.candidates), pinned)
        size_bytes = int(pc.sum(held["size"]).as_py() or 0)
        self.counts.update(pinned_objects=held.num_rows, pinned_bytes=size_bytes)
        self.counts.subtract({"candidates_objects": held.num_rows, "candidates_bytes": size_bytes})
        return [going] if going.num_rows else []


def _live_in_range(folder: RunFolder, config: ListConfig, task: ListTask) -> Hashes:
    if task.kind != "chunks":
        return task.part_of(read_hashes(folder, config.live[task.kind]))
    pieces = [
        [read_hashes(folder, part) for part in config.chunk_shards[shard]]
        for shard in task.shards(config.chunk_bits)
    ]
    return task.part_of(np.concatenate(list(ordered_map(unite, pieces, os.cpu_count() or 1))))


def _that_must_be_there(folder: RunFolder, config: ListConfig, task: ListTask, absent: Hashes) -> Hashes:
    # Chunks in locations of virtual chunks only may be in another repository.
    if task.kind == "chunks" and len(absent):
        shards = [config.chunk_shards[shard] for shard in task.shards(config.chunk_bits)]
        native = [read_hashes(folder, part) for parts in shards for part in parts if not is_virtual(part)]
        return absent[contains(unite(native), absent)]
    if task.kind != "transactions" or not len(absent):
        return absent
    # Roots of spec 1 have no transaction log.
    return absent[contains(read_hashes(folder, config.pruned), absent)]


def unproved(batch: pa.RecordBatch, prefix: str, read: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the new manifests with unproved bytes on a page of a listing: index part and ETag of each."""
    names = pc.utf8_slice_codeunits(batch["key"], len(prefix))
    new = pc.is_in(names, pa.array(list(read), pa.string()))
    rows = zip(names.filter(new).to_pylist(), batch["etag"].filter(new).to_pylist(), strict=True)
    return {name: [read[name][1], tag or ""] for name, tag in rows if not tag or read[name][0] != tag}
