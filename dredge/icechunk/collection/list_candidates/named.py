"""Chunks of unreferenced manifests, in a run without a listing of chunks.

    unreferenced manifests (listed) ──> names and sizes of their chunks, each once ──> not counted: garbage

A writer stores a chunk before its manifest, and a manifest before its snapshot. So a chunk is at least as old as any of
its manifests, and the chunks of an unreferenced manifest older than the cutoff are also older. They exist: a run
deletes manifests before chunks, and after a run that stopped in between the next run is a clean one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS, is_old
from dredge.icechunk.collection.list_candidates.listing import without_pinned, write_candidates
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.sets import Ids
from dredge.icechunk.collection.state import counts_folder
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import ID_BYTES, encode_ids, hashes_of, raw_ids_of_names
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function, waiting_function
from dredge.sets.live import CountedSet, LocatedSet
from dredge.storage import ObjectInfo, ObjectReader
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.parallel import ordered_map

NAMED = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("tail", pa.uint32(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""A chunk: the first 64 bits and the last 32 of its id, its size, and a time at which it existed."""
_GATHERED_MAX = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NameConfig:
    """Payload of all tasks: shard bits, and files in flight."""

    bits: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTask:
    """Rows of a part of found manifests; `name` is the prefix of the task's files."""

    name: str
    part: PartInfo
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResult:
    """Rows of `NAMED`, a file for each shard; and keys of damaged, missing or archived manifests."""

    shards: dict[int, PartInfo]
    unread: list[str]


@waiting_function
def name_chunks(run: WorkerRun, config: NameConfig, task: NameTask) -> NameResult:
    """Write the chunks of some unreferenced manifests, each once."""
    rows = run.folder.read_part(task.part, ["address", "last_modified"]).slice(task.first, task.count)
    unread: list[str] = []
    waiting: list[pa.Table] = []
    read = partial(_named_by, run.open_store())
    items = list(zip(rows["address"].to_pylist(), rows["last_modified"].to_pylist(), strict=True))
    for (key, _), found in zip(items, ordered_map(read, items, config.threads), strict=True):
        if found is None:
            unread.append(key)
            continue
        waiting.append(found)
        if sum(table.num_rows for table in waiting) > _GATHERED_MAX:
            waiting = [once(waiting)]
    run.progress.add(len(items))
    return NameResult(shards=write_by_shard(run.folder, config.bits, task.name, once(waiting)), unread=unread)


def rows_of_names(rows: pa.Table, names: pa.Array) -> pa.Table:
    """Make rows of `NAMED` from names of chunks."""
    raw = raw_ids_of_names(names.to_pylist())
    return _table(raw, rows["size"].to_numpy(), rows["last_modified"].combine_chunks())


def _named_by(reader: ObjectReader, item: tuple[str, datetime]) -> pa.Table | None:
    key, time = item
    try:
        found = parse_manifest(reader.get(key), key)
    except (NotFoundError, FormatError, ConfigError):  # it may be archived
        return None
    ids, sizes = found.native_ids, [array.lengths[array.kind == NATIVE] for array in found.arrays]
    lengths = np.concatenate([np.empty(0, np.uint64), *sizes]).astype(np.int64)
    return _table(ids, lengths, pa.repeat(pa.scalar(time, NAMED.field("last_modified").type), len(ids)))


def _table(ids: np.ndarray, sizes: np.ndarray, times: pa.Array) -> pa.Table:
    tails = np.ascontiguousarray(ids[:, 8:]).view(">u4").reshape(-1).astype(np.uint32)
    columns = [pa.array(hashes_of(ids)), pa.array(tails), pa.array(sizes), times]
    return pa.Table.from_arrays(columns, schema=NAMED)


def once(tables: Sequence[pa.Table]) -> pa.Table:
    """Sort rows and remove duplicates; the earliest time of a chunk wins."""
    if not tables:
        return NAMED.empty_table()
    table = pa.concat_tables(tables).combine_chunks()
    hashes, tails = table["hash"].to_numpy(), table["tail"].to_numpy()
    times = table["last_modified"].cast(pa.int64()).to_numpy()
    order = np.lexsort((times, tails, hashes))
    hashes, tails = hashes[order], tails[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]) | (tails[1:] != tails[:-1])
    return table.take(pa.array(order[first]))


def write_by_shard(folder: RunFolder, bits: int, name: str, rows: pa.Table) -> dict[int, PartInfo]:
    """Write rows of `NAMED` from `once`, a file for each shard."""
    hashes = rows["hash"].to_numpy()
    bounds = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits if bits else 0)
    ends = [0, *np.searchsorted(hashes, bounds).tolist(), rows.num_rows]
    return {
        shard: folder.write_table(
            ListCandidatesOutput.STEP,
            shard,
            rows.slice(ends[shard], ends[shard + 1] - ends[shard]),
            name,
        )
        for shard in range(len(ends) - 1)
        if ends[shard + 1] > ends[shard]
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectConfig:
    """Payload of all tasks; `counted` has the number of live manifests by chunk."""

    counted: CountedSet
    cutoff: datetime
    candidate_rows: int
    threads: int
    pinned: tuple[LocatedSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectTask:
    """Rows of `NAMED` by shard; the number is in the names of the parts."""

    number: int
    shards: dict[int, list[PartInfo]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectResult:
    """Parts of found chunks, and their figures."""

    parts: list[PartInfo]
    counts: dict[str, int]


@partition_function
def select_dead(run: WorkerRun, config: SelectConfig, task: SelectTask) -> SelectResult:
    """Write the chunks without a live manifest as found."""
    counts_in = counts_folder(run.open_state(), run.stores.run_id)
    found = SelectResult(parts=[], counts=dict.fromkeys(("listed_objects", "listed_bytes"), 0))
    dead: list[pa.Table] = []
    for _, parts in sorted(task.shards.items()):
        rows = once(list(run.folder.read_parts(parts)))
        hashes: Ids = rows["hash"].to_numpy()
        (alive,) = config.counted.find(counts_in, [hashes], its_shards_only=True)
        dead.append(_listed(rows.filter(pa.array(~alive))))
        found.counts["listed_objects"] += rows.num_rows
        found.counts["listed_bytes"] += bytes_of(rows)
        run.progress.add(rows.num_rows)
    going, held = without_pinned(pa.concat_tables([LISTING_SCHEMA.empty_table(), *dead]), config.pinned)
    candidates = [going] if going.num_rows else []
    for name, table in (("candidates", going), ("pinned", held)):
        found.counts.update({f"{name}_objects": table.num_rows, f"{name}_bytes": bytes_of(table)})
    found.parts.extend(write_candidates(run.folder, "chunks", task.number, candidates, config.candidate_rows))
    return found


def bytes_of(rows: pa.Table) -> int:
    """Sum of sizes."""
    return int(pc.sum(rows["size"]).as_py() or 0)


def _listed(rows: pa.Table) -> pa.Table:
    ids = np.empty((rows.num_rows, ID_BYTES), np.uint8)
    ids[:, :8] = rows["hash"].to_numpy().astype(">u8").view(np.uint8).reshape(-1, 8)
    ids[:, 8:] = rows["tail"].to_numpy().astype(">u4").view(np.uint8).reshape(-1, 4)
    keys = pc.binary_join_element_wise(OBJECT_FOLDERS["chunks"], encode_ids(ids), "")
    etags = pa.nulls(rows.num_rows, pa.string())
    return pa.table([keys, rows["size"], rows["last_modified"], etags], schema=LISTING_SCHEMA)


def still_there(reader: ObjectReader, cutoff: datetime, threads: int, rows: pa.Table) -> pa.Table:
    """Ask the store for chunks; return the existing old ones as a listing would."""
    keys = _listed(rows)["key"].to_pylist()
    found = [info for info in ordered_map(partial(_stat, reader), keys, threads) if info is not None]
    return pa.Table.from_pylist(list(_old(found, cutoff)), schema=LISTING_SCHEMA)


def _old(found: Sequence[ObjectInfo], cutoff: datetime) -> Iterator[dict[str, object]]:
    for info in found:
        if is_old(info.last_modified, cutoff):
            yield {"key": info.key, "size": info.size, "last_modified": info.last_modified, "etag": info.etag}


def _stat(reader: ObjectReader, key: str) -> ObjectInfo | None:
    try:
        return reader.stat(key)
    except NotFoundError:
        return None
