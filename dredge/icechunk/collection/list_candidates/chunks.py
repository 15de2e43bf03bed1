"""Find unreachable chunks without a listing of chunks; in a clean run, also find the chunks missed by such runs.

    unreferenced manifests (listed) ──> names and sizes of their chunks, each once ──> not counted: garbage

A writer stores a chunk before its manifest, and a manifest before its snapshot. So a chunk is at least as old as any of
its manifests, and the chunks of an unreferenced manifest older than the cutoff are also older. They exist: a run
deletes manifests before chunks, and after a run that stopped in between the next run is a clean one.

A clean run may read an inventory of the bucket instead of listing it:

    inventory's files ──> names, sizes and times ─┐
    unreferenced manifest files (listed) ─────────┴─> each once ──> no live manifest, older than the cutoff
                                              ──> the run asks the store: exists, and is still old ──> garbage
    live, and not in the inventory ──> the run asks the store for each ──> absent

An inventory shows the past: the run does not collect objects outside it, and asks the store for objects in it. The
cutoff is not after the inventory's start, so younger objects wait for the next run. Snapshots, transaction logs and
manifests are listed: a thousand of them take one request.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, RefusedError
from dredge.icechunk.collection.absent import MANIFESTS_PER_TASK, ask_beyond_inventory, ask_for_new
from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.list_candidates.listing import ListResult, without_pinned, write_candidates
from dredge.icechunk.collection.list_candidates.waiting import Before, without
from dredge.icechunk.collection.outputs import FOUND, ListCandidatesOutput, MarkOutput, is_virtual
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import encode_ids, hashes_of_names
from dredge.icechunk.repository import AT_ONCE, CHUNKS, is_old, is_old_column
from dredge.inventory.manifest import InventoryFile, Layout, find_again
from dredge.inventory.rows import downloaded, read_rows
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.pending.rows import PENDING, due
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, waiting_function
from dredge.runs.versions import CLEAN
from dredge.sets.hashes import Hashes, contains, read_hashes, unite, write_hashes
from dredge.sets.live import CountedSet, LocatedSet
from dredge.storage import ObjectInfo, ObjectReader
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.parallel import ordered_map

_STEP = ListCandidatesOutput.STEP
GATHERED_MAX = 2 << 20
"""Maximum number of rows in the memory of a task."""

type Shards = Mapping[int, PartInfo]
"""Rows of chunks in the form of a listing, each chunk once, sorted into shards by the first bits of the ids."""


class NameTask(Struct, frozen=True, kw_only=True):
    """A range of rows of a part of found manifests; `name` is the prefix of the task's files."""

    name: str
    part: PartInfo
    first: int
    count: int


class NameResult(Struct, frozen=True, kw_only=True):
    """Chunks by shard, and keys of damaged, missing or archived manifests. For an inventory: figures of objects below
    `chunks/`, their bytes, names that are not ids, and rows of the files."""

    shards: dict[int, PartInfo]
    unread: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


@waiting_function
def name_chunks(run: WorkerRun, bits: int, task: NameTask) -> NameResult:
    """Write the chunks of some unreferenced manifests, each once."""
    rows = run.folder.read_part(task.part, ["address", "last_modified"]).slice(task.first, task.count)
    unread: list[str] = []
    waiting: list[pa.Table] = []
    read = partial(_named_by, run.open_store())
    items = list(zip(rows["address"].to_pylist(), rows["last_modified"].to_pylist(), strict=True))
    for (key, _), found in zip(items, ordered_map(read, items, AT_ONCE), strict=True):
        if found is None:
            unread.append(key)
            continue
        waiting.append(found)
        if sum(table.num_rows for table in waiting) > GATHERED_MAX:
            waiting = [once(waiting)]
    run.progress.add(len(items))
    return NameResult(shards=write_by_shard(run.folder, bits, task.name, once(waiting)), unread=unread)


def _named_by(reader: ObjectReader, item: tuple[str, datetime]) -> pa.Table | None:
    key, time = item
    try:
        found = parse_manifest(reader.get(key), key)
    except (NotFoundError, FormatError, ConfigError):  # it may be archived
        return None
    keys = pc.binary_join_element_wise(CHUNKS, encode_ids(found.native_ids), "")
    sizes = np.concatenate(
        [np.empty(0, np.uint64), *(array.lengths[array.kind == NATIVE] for array in found.arrays)]
    ).astype(np.int64)
    columns = [keys, sizes, [time] * len(keys), [None] * len(keys)]
    return pa.table(dict(zip(LISTING_SCHEMA.names, columns, strict=True)), schema=LISTING_SCHEMA)


def once(tables: Sequence[pa.Table]) -> pa.Table:
    """Sort rows and remove duplicates; the earliest time of a chunk wins."""
    table = pa.concat_tables([LISTING_SCHEMA.empty_table(), *tables])
    table = table.sort_by([("key", "ascending"), ("last_modified", "ascending")])
    if not table.num_rows:
        return table
    keys = table["key"].combine_chunks()
    first = pa.concat_arrays([pa.array([True]), pc.not_equal(keys[1:], keys[:-1])])
    return table.filter(first).combine_chunks()


def write_by_shard(folder: RunFolder, bits: int, name: str, rows: pa.Table) -> dict[int, PartInfo]:
    """Write rows from `once`, a file for each shard; keys sort as the ids' bits."""
    bounds = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits if bits else 0)
    ends = [0, *np.searchsorted(hashes_of_keys(rows["key"]), bounds).tolist(), rows.num_rows]
    return {
        shard: folder.write_table(_STEP, shard, rows.slice(ends[shard], ends[shard + 1] - ends[shard]), name)
        for shard in range(len(ends) - 1)
        if ends[shard + 1] > ends[shard]
    }


def hashes_of_keys(keys: pa.ChunkedArray) -> Hashes:
    """Return the first 64 bits of the ids in keys of chunks."""
    return hashes_of_names(pc.utf8_slice_codeunits(keys, len(CHUNKS)))[0]


class SelectConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks: `counted` has the number of live manifests by chunk; None uses the sets of a task, and asks
    the store for the chunks, because the rows are of an inventory. `keep_all` spares all chunks."""

    counted: CountedSet | None
    cutoff: datetime
    candidate_rows: int
    pinned: tuple[LocatedSet, ...]
    keep_all: bool


class SelectTask(Struct, frozen=True, kw_only=True):
    """Rows and sets of live chunks of a shard."""

    shard: int
    rows: list[PartInfo]
    live: list[PartInfo]


class SelectResult(Struct, frozen=True, kw_only=True):
    """Parts of found chunks, their figures, and the set of live native chunks without a row."""

    parts: list[PartInfo]
    counts: dict[str, int]
    absent: PartInfo | None = None


@partition_function
def select_dead(run: WorkerRun, config: SelectConfig, task: SelectTask) -> SelectResult:
    """Write the chunks of a shard that no live manifest has, as found objects."""
    rows = once(list(run.folder.read_parts(task.rows)))
    hashes, absent, counts = hashes_of_keys(rows["key"]), None, Counter[str]()
    if config.counted is not None:
        folder = RunFolder(run.open_state(), run.stores.run_id)
        (live,) = config.counted.find(folder, [hashes], its_shards_only=True)
    else:
        live = contains(unite([read_hashes(run.folder, part) for part in task.live]), hashes)
        native = unite([read_hashes(run.folder, part) for part in task.live if not is_virtual(part)])
        name = f"{_STEP}/_absent/{task.shard:04d}.ids"
        absent = write_hashes(run.folder, name, native[~contains(hashes, native)])
    found = rows.filter(pa.array(~live))
    young = found.slice(0, 0)
    if config.counted is None:
        old = pa.array(is_old_column(found["last_modified"].combine_chunks(), config.cutoff))
        young, found = found.filter(pc.invert(old)), found.filter(old)
        counts["asked"] = found.num_rows
        found = still_there(run.open_store(), config.cutoff, found)
    going, held = without_pinned(found, config.pinned)
    spared, going = (going, going.slice(0, 0)) if config.keep_all else (going.slice(0, 0), going)
    figures = {"listed": rows, "candidates": going, "pinned": held, "spared": spared, "young": young}
    for name, table in figures.items():
        counts.update({f"{name}_objects": table.num_rows, f"{name}_bytes": bytes_of(table)})
    run.progress.add(rows.num_rows)
    tables = [going] if going.num_rows else []
    parts = write_candidates(run.folder, "chunks", task.shard, tables, config.candidate_rows)
    return SelectResult(parts=parts, counts=dict(counts), absent=absent)


def bytes_of(rows: pa.Table) -> int:
    """Sum of sizes."""
    return int(pc.sum(rows["size"]).as_py() or 0)


def still_there(reader: ObjectReader, cutoff: datetime, rows: pa.Table) -> pa.Table:
    """Ask the store for chunks; return those that exist and are older than the cutoff, in the form of a listing."""
    asked = ordered_map(partial(_stat, reader), rows["key"].to_pylist(), AT_ONCE)
    found = [info for info in asked if info is not None and is_old(info.last_modified, cutoff)]
    columns = {name: [getattr(info, name) for info in found] for name in LISTING_SCHEMA.names}
    return pa.table(columns, schema=LISTING_SCHEMA)


def _stat(reader: ObjectReader, key: str) -> ObjectInfo | None:
    try:
        return reader.stat(key)
    except NotFoundError:
        return None


def select(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    found: Sequence[Shards],
    pinned: tuple[LocatedSet, ...],
    counted: CountedSet | None,
    live: Sequence[list[PartInfo]] = (),
) -> tuple[Counter[str], list[PartInfo]]:
    """Find the chunks without a live manifest; returns figures, and the sets of `SelectResult.absent`. `counted` and
    `live` come from the mark, by shard; see `SelectConfig`."""
    tuning = run.plan.config.tuning
    shards = range(len(live)) if counted is None else sorted({shard for parts in found for shard in parts})
    tasks = [
        SelectTask(
            shard=shard,
            rows=[parts[shard] for parts in found if shard in parts],
            live=live[shard] if live else [],
        )
        for shard in shards
    ]
    config = SelectConfig(
        counted=counted,
        cutoff=run.plan.cutoff,
        candidate_rows=tuning.candidate_rows,
        pinned=pinned,
        keep_all="chunks" in run.plan.config.kept_kinds,
    )
    rows = sum(part.rows for task in tasks for part in task.rows)
    results = run.spread(runner, _STEP, select_dead, config, tasks, "chunks", rows)
    totals = Counter[str]()
    for result in results:
        record.parts += result.parts
        totals.update(result.counts)
    return totals, [result.absent for result in results if result.absent is not None and result.absent.rows]


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
    dead = [result.shards for result in of_dead(run, runner, record, counted.bits)]
    found = [*dead, due_chunks(run, before, counted.bits)]
    totals = Counter(dict.fromkeys(listing.FIGURES, 0))
    totals["absent"] = record.counts["chunks_absent"]
    totals.update(select(run, runner, record, found, pinned, counted)[0])
    record.counts.update({f"chunks_{name}": value for name, value in totals.items()})


def due_chunks(run: Run, before: Before, bits: int) -> dict[int, PartInfo]:
    """Write the chunks of the pending list that have waited long enough, by shard, in a run without a listing."""
    state, plan, pieces = RunFolder(run.state, "the pending list"), run.plan, list[pa.Table]()
    for part in (part for shard, part in before.parts.items() if shard):
        rows = without(state.read_part(part).cast(PENDING), before.gone)
        rows = rows.filter(pa.array(due(rows, plan.created_at, plan.grace, plan.cutoff))).combine_chunks()
        age = rows["min_age"].cast(pa.duration("us"))  # what waits was older than that when its wait began
        at = pc.coalesce(rows["last_modified"], pc.subtract(rows["since"], age), rows["since"])
        columns = [rows["address"], rows["size"], at, pa.nulls(rows.num_rows, pa.string())]
        pieces.append(pa.table(columns, schema=LISTING_SCHEMA))
    return write_by_shard(run.folder, bits, "due", once(pieces))


def of_dead(run: Run, runner: TaskRunner, record: StepRecord, bits: int) -> list[NameResult]:
    """Write the chunks of all manifests without a live snapshot."""
    parts = found_parts(record, "manifests")
    pieces = [(part, first) for part in parts for first in range(0, part.rows, MANIFESTS_PER_TASK)]
    tasks = [
        NameTask(name=f"named-{number:05d}", part=part, first=first, count=MANIFESTS_PER_TASK)
        for number, (part, first) in enumerate(pieces)
    ]
    total = sum(part.rows for part in parts)
    results = run.spread(runner, _STEP, name_chunks, bits, tasks, "manifests", total)
    unread = [key for result in results for key in result.unread]
    record.counts["manifests_unread"] = len(unread)
    if unread:
        fate = "are deleted if listed" if run.plan.mode == CLEAN else "stay until the next clean run"
        record.warn(
            f"{len(unread):,} unreachable manifests cannot be read, such as {unread[0]}: their chunks {fate}"
        )
    return results


def found_parts(record: StepRecord, kind: str) -> list[PartInfo]:
    """The files of found objects of a kind."""
    return [part for part in record.parts if part.name.startswith(f"{_STEP}/{FOUND}{kind}-")]


def find_drift(run: Run, runner: TaskRunner, record: StepRecord) -> dict[str, Any] | None:
    """Find the chunks that optimized runs missed; returns figures and a few keys, or None for an optimized run or
    without a state."""
    plan = run.plan
    if plan.mode != CLEAN:
        return None
    try:
        if (base := run.previous) is None:
            return None
        folder = RunFolder(run.state, plan.run_id)
        tables = []
        for part in found_parts(record, "chunks"):
            rows = run.folder.read_part(part, ["address", "size"])
            hashes = hashes_of_keys(rows["address"])
            (known,) = base.state.counted.find(folder, [hashes], its_shards_only=True)
            tables.append(rows.filter(pa.array(~known)))
        missed = _beyond_manifests(run, runner, record, tables)
    except DredgeError as error:
        record.warn(f"chunks missed by optimized runs could not be counted: {error}")
        return None
    return {
        "objects": missed.num_rows,
        "bytes": bytes_of(missed),
        "samples": missed["address"].slice(0, _EXAMPLES_MAX).to_pylist(),
        "since": base.state.clean_run_id,
        "runs": base.state.optimized_runs,
    }


def _beyond_manifests(
    run: Run, runner: TaskRunner, record: StepRecord, tables: Sequence[pa.Table]
) -> pa.Table:
    if not any(table.num_rows for table in tables):
        return pa.table({"address": pa.array([], pa.string()), "size": pa.array([], pa.int64())})
    rows = pa.concat_tables(tables)
    named_parts = [part for result in of_dead(run, runner, record, 0) for part in result.shards.values()]
    pieces = [hashes_of_keys(run.folder.read_part(part, ["key"])["key"]) for part in named_parts]
    return rows.filter(pa.array(~contains(unite(pieces), hashes_of_keys(rows["address"]))))


class InventoryConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks: layout of the inventory's files, and shard bits."""

    layout: Layout
    bits: int


@partition_function
def name_inventory(
    run: WorkerRun, config: InventoryConfig, task: tuple[str, list[InventoryFile]]
) -> NameResult:
    """Write the chunks in some files of an inventory, each once, into files with a given prefix."""
    name, files = task
    counts: Counter[str] = Counter()
    waiting: list[pa.Table] = []
    for file in files:
        with downloaded(file) as path:
            for batch in read_rows(path, file.uri, config.layout, counts):
                rows = pa.Table.from_batches([batch])
                waiting.append(_chunks_of(rows.filter(pc.starts_with(rows["key"], CHUNKS)), counts))
                run.progress.add(batch.num_rows)
                if sum(table.num_rows for table in waiting) > GATHERED_MAX:
                    waiting = [once(waiting)]
    shards = write_by_shard(run.folder, config.bits, name, once(waiting))
    return NameResult(shards=shards, counts=dict(counts))


def _chunks_of(rows: pa.Table, counts: Counter[str]) -> pa.Table:
    if rows["size"].null_count or rows["last_modified"].null_count:
        raise FormatError("the inventory lacks size or time of some chunks. Nothing was deleted.")
    _, is_id = hashes_of_names(pc.utf8_slice_codeunits(rows["key"], len(CHUNKS)))
    counts.update(listed_objects=rows.num_rows, foreign=int((~is_id).sum()), listed_bytes=bytes_of(rows))
    return rows.filter(pa.array(is_id)).select(LISTING_SCHEMA.names).cast(LISTING_SCHEMA)


def find_in_inventory(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    dead: Sequence[NameResult],
    pinned: tuple[LocatedSet, ...],
) -> None:
    """Find deletable chunks and absent live chunks in an inventory. Raises RefusedError: the inventory has changed, or
    has no chunks although some are live; FormatError: one of its files, or a live manifest, is missing or damaged."""
    mark, contents = (
        record.input(MarkOutput),
        find_again(run.plan.inventory, run.plan.uri, run.store_now(), run.options),
    )
    shares = run.shares(runner, contents.files)
    tasks = [(f"inventory-{number:05d}", share) for number, share in enumerate(shares)]
    config = InventoryConfig(layout=contents.layout, bits=mark.chunk_bits)
    read = run.spread(runner, ListCandidatesOutput.STEP, name_inventory, config, tasks, "objects")
    counts = sum((Counter(result.counts) for result in read), Counter[str]())
    if mark.chunks and not counts["listed_objects"]:
        raise RefusedError(
            f"inventory {contents.source.uri} has no object below {run.plan.uri.rstrip('/')}/{CHUNKS}, although chunks"
            " are live, so it covers other prefixes. Nothing was deleted. Use an inventory of this prefix, or none:"
            " the run then lists the store."
        )
    found = [*(result.shards for result in read), *(result.shards for result in dead)]
    totals, absent = select(run, runner, record, found, pinned, None, mark.chunk_shards)
    figures = {**totals, **{name: counts[name] for name in ("listed_objects", "listed_bytes", "foreign")}}
    figures["absent"] = ask_beyond_inventory(run, runner, record, mark, absent)
    record.counts.update({f"chunks_{name}": value for name, value in figures.items()})
    record.counts["inventory_rows"] = counts["inventory_rows"]
    record.details["inventory"] = contents.source
