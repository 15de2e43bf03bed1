"""Chunks in a run without a listing of chunks; and, in a clean run, those that such runs miss.

    unreferenced manifests (listed) ──> names and sizes of their chunks, each once ──> not counted: garbage

A writer stores a chunk before its manifest, and a manifest before its snapshot. So a chunk is at least as old as any of
its manifests, and the chunks of an unreferenced manifest older than the cutoff are also older. They exist: a run
deletes manifests before chunks, and after a run that stopped in between the next run is a clean one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError
from dredge.icechunk.collection.absent import MANIFESTS_PER_TASK, ask_for_new
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS, is_old, names_of
from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.list_candidates.listing import ListResult, without_pinned, write_candidates
from dredge.icechunk.collection.list_candidates.waiting import Before, without
from dredge.icechunk.collection.outputs import FOUND, ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import ID_BYTES, encode_ids, hashes_of, hashes_of_names, raw_ids_of_names
from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import PENDING, due
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import (
    TaskRunner,
    WorkerRun,
    partition_function,
    round_robin,
    waiting_function,
)
from dredge.runs.versions import CLEAN
from dredge.sets.hashes import Hashes, contains, unite
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
    counts_in = RunFolder(run.open_state(), run.stores.run_id)
    found = SelectResult(parts=[], counts=dict.fromkeys(("listed_objects", "listed_bytes"), 0))
    dead: list[pa.Table] = []
    for _, parts in sorted(task.shards.items()):
        rows = once(list(run.folder.read_parts(parts)))
        hashes: Hashes = rows["hash"].to_numpy()
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


_EXAMPLES_MAX = 20


def find_chunks(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    results: Sequence[ListResult],
    before: Before,
    pinned: tuple[LocatedSet, ...],
) -> None:
    """Find deletable chunks, and check that the chunks of new manifests exist."""
    counted = record.input(MarkOutput).counted
    assert counted is not None  # the mark of an optimized run counts
    assert run.base is not None
    doubtful = {name: part for result in results for name, part in result.unproved.items()}
    ask_for_new(run, runner, record, run.base, doubtful)
    if run.plan.config.keep_chunks:
        return
    settings = run.plan.config.tuning
    shards: dict[int, list[PartInfo]] = {}
    named_by_dead = [result.shards for result in of_dead(run, runner, record, counted.bits)]
    for found in (*named_by_dead, due_chunks(run, before, counted.bits)):
        for shard, part in found.items():
            shards.setdefault(shard, []).append(part)
    shares = round_robin(sorted(shards), run.num_tasks(runner, len(shards)))
    tasks = [
        SelectTask(number=number, shards={shard: shards[shard] for shard in share})
        for number, share in enumerate(shares)
    ]
    config = SelectConfig(
        counted=counted,
        cutoff=run.plan.cutoff,
        candidate_rows=settings.candidate_rows,
        threads=settings.threads,
        pinned=pinned,
    )
    rows = sum(part.rows for parts in shards.values() for part in parts)
    selected = run.spread(runner, ListCandidatesOutput.STEP, select_dead, config, tasks, "chunks", rows)
    totals: Counter[str] = Counter(dict.fromkeys(listing.FIGURES, 0))
    totals["absent"] = record.counts["chunks_absent"]
    for chosen in selected:
        record.parts += chosen.parts
        totals.update(chosen.counts)
    record.counts.update({f"chunks_{name}": value for name, value in totals.items()})


def due_chunks(run: Run, before: Before, bits: int) -> dict[int, PartInfo]:
    """Write the waited chunks of the list as rows of `chunks.NAMED` by shard of ids, in a run without a listing."""
    state, plan, pieces = RunFolder(run.state, "the pending list"), run.plan, list[pa.Table]()
    for part in (part for shard, part in before.parts.items() if shard):
        rows = without(state.read_part(part).cast(PENDING), before.gone)
        rows = rows.filter(pa.array(due(rows, plan.created_at, plan.grace, plan.cutoff))).combine_chunks()
        age = rows["min_age"].cast(pa.duration("us"))  # what waits was older than that when its wait began
        at = pc.coalesce(rows["last_modified"], pc.subtract(rows["since"], age), rows["since"])
        rows = pa.table({"address": rows["address"], "size": rows["size"], "last_modified": at})
        pieces.append(rows_of_names(rows, names_of("chunks", rows["address"]).combine_chunks()))
    return write_by_shard(run.folder, bits, "due", once(pieces))


def of_dead(run: Run, runner: TaskRunner, record: StepRecord, bits: int) -> list[NameResult]:
    """Write the chunks of all manifests without a live snapshot."""
    start = f"{ListCandidatesOutput.STEP}/{FOUND}manifests-"
    parts = [part for part in record.parts if part.name.startswith(start)]
    pieces = [(part, first) for part in parts for first in range(0, part.rows, MANIFESTS_PER_TASK)]
    tasks = [
        NameTask(name=f"named-{number:05d}", part=part, first=first, count=MANIFESTS_PER_TASK)
        for number, (part, first) in enumerate(pieces)
    ]
    config = NameConfig(bits=bits, threads=run.plan.config.tuning.threads)
    total = sum(part.rows for part in parts)
    results = run.spread(runner, ListCandidatesOutput.STEP, name_chunks, config, tasks, "manifests", total)
    unread = [key for result in results for key in result.unread]
    record.counts["manifests_unread"] = len(unread)
    if unread:
        fate = "are deleted if listed" if run.plan.mode == CLEAN else "stay until the next clean run"
        record.warn(
            f"{len(unread):,} unneeded manifests cannot be read, such as {unread[0]}: their chunks {fate}"
        )
    return results


def find_drift(run: Run, runner: TaskRunner, record: StepRecord) -> dict[str, Any] | None:
    """Find the chunks beyond the reach of optimized runs.

    Returns:
        Figures and a few keys; None for an optimized run, or without a state.
    """
    plan = run.plan
    if plan.mode != CLEAN:
        return None
    try:
        if (base := run.previous) is None:
            return None
        folder = RunFolder(run.state, plan.run_id)
        start = f"{ListCandidatesOutput.STEP}/{FOUND}chunks-"
        tables = []
        for part in [part for part in record.parts if part.name.startswith(start)]:
            rows = run.folder.read_part(part, ["address", "size"])
            (known,) = base.state.counted.find(folder, [_hashes(rows)], its_shards_only=True)
            tables.append(rows.filter(pa.array(~known)))
        missed = _beyond_manifests(run, runner, record, tables)
    except DredgeError as error:
        record.warn(f"chunks that optimized runs may have missed are unknown: {error}")
        return None
    return {
        "objects": missed.num_rows,
        "bytes": int(pc.sum(missed["size"]).as_py() or 0),
        "samples": missed["address"].slice(0, _EXAMPLES_MAX).to_pylist(),
        "since": base.state.clean_run_id,
        "runs": base.state.optimized_runs,
    }


def _hashes(rows: pa.Table) -> Hashes:
    return hashes_of_names(pc.utf8_slice_codeunits(rows["address"], len(OBJECT_FOLDERS["chunks"])))[0]


def _beyond_manifests(
    run: Run, runner: TaskRunner, record: StepRecord, tables: Sequence[pa.Table]
) -> pa.Table:
    if not any(table.num_rows for table in tables):
        return pa.table({"address": pa.array([], pa.string()), "size": pa.array([], pa.int64())})
    rows = pa.concat_tables(tables)
    named_parts = [part for result in of_dead(run, runner, record, 0) for part in result.shards.values()]
    pieces = [run.folder.read_part(part, ["hash"])["hash"].to_numpy() for part in named_parts]
    found = contains(unite(pieces), _hashes(rows)) if pieces else np.zeros(rows.num_rows, np.bool_)
    return rows.filter(pa.array(~found))
