"""Chunks in a clean run that reads an inventory of the bucket instead of listing them.

    inventory's files ──> names, sizes and times ─┐
    unreferenced manifest files (listed) ─────────┴─> each once ──> no live manifest, older than the cutoff
                                              ──> the run asks the store: exists, and is still old ──> garbage
    live, and not in the inventory ──> the run asks the store for each ──> absent

An inventory shows the past: the run does not collect objects outside it, and asks the store for objects in it. The
cutoff is not after the inventory's start, so younger objects wait for the next run. Snapshots, transaction logs and
manifests are listed: a thousand of them take one request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.collection.absent import ask_beyond_inventory
from dredge.icechunk.collection.kinds import is_old_column
from dredge.icechunk.collection.list_candidates.chunks import (
    NameResult,
    bytes_of,
    once,
    rows_of_names,
    still_there,
    write_by_shard,
)
from dredge.icechunk.collection.list_candidates.listing import without_pinned, write_candidates
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput, is_virtual
from dredge.icechunk.collection.run import Run
from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.repository import CHUNKS
from dredge.inventory.manifest import Contents, InventoryFile, Layout, find_inventory
from dredge.inventory.rows import downloaded, read_rows
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import contains, read_hashes, unite, write_hashes
from dredge.sets.live import LocatedSet

_GATHERED_MAX = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryConfig:
    """Payload of all tasks: layout of the inventory's files, and shard bits."""

    layout: Layout
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryTask:
    """Files of the inventory; `name` is the prefix of the task's files."""

    name: str
    files: list[InventoryFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryResult:
    """Rows of `chunks.NAMED` by shard, and figures: objects below `chunks/`, their bytes, names that are not ids,
    rows of the files.
    """

    shards: dict[int, PartInfo]
    objects: int
    size_bytes: int
    foreign: int
    rows: int


@partition_function
def name_inventory(run: WorkerRun, config: InventoryConfig, task: InventoryTask) -> InventoryResult:
    """Write the chunks in some files of an inventory, each once."""
    counts: Counter[str] = Counter()
    waiting: list[pa.Table] = []
    for file in task.files:
        with downloaded(file) as path:
            for batch in read_rows(path, file.uri, config.layout, counts):
                rows = pa.Table.from_batches([batch])
                waiting.append(_chunks_of(rows.filter(pc.starts_with(rows["key"], CHUNKS)), counts))
                run.progress.add(batch.num_rows)
                if sum(table.num_rows for table in waiting) > _GATHERED_MAX:
                    waiting = [once(waiting)]
    return InventoryResult(
        shards=write_by_shard(run.folder, config.bits, task.name, once(waiting)),
        objects=counts["objects"],
        size_bytes=counts["bytes"],
        foreign=counts["foreign"],
        rows=counts["inventory_rows"],
    )


def _chunks_of(rows: pa.Table, counts: Counter[str]) -> pa.Table:
    if rows["size"].null_count or rows["last_modified"].null_count:
        raise FormatError("the inventory has no size or no time for some chunks. Nothing was deleted.")
    names = pc.utf8_slice_codeunits(rows["key"], len(CHUNKS)).combine_chunks()
    _, is_id = hashes_of_names(names)
    counts.update(objects=rows.num_rows, foreign=int((~is_id).sum()), bytes=bytes_of(rows))
    return rows_of_names(rows.filter(pa.array(is_id)), names.filter(pa.array(is_id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectConfig:
    """Payload of all tasks; `keep_all` spares all chunks."""

    cutoff: datetime
    candidate_rows: int
    threads: int
    pinned: tuple[LocatedSet, ...]
    keep_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectTask:
    """Rows of `chunks.NAMED` and sets of live chunks of a shard."""

    shard: int
    rows: list[PartInfo]
    live: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectResult:
    """Parts of found chunks, their figures, and the set of live native chunks outside the inventory."""

    parts: list[PartInfo]
    counts: dict[str, int]
    absent: PartInfo


@partition_function
def select_unnamed(run: WorkerRun, config: SelectConfig, task: SelectTask) -> SelectResult:
    """Write the existing chunks of a shard without a live manifest as found."""
    rows = once(list(run.folder.read_parts(task.rows)))
    live = unite([read_hashes(run.folder, part) for part in task.live])
    native = unite([read_hashes(run.folder, part) for part in task.live if not is_virtual(part)])
    hashes = rows["hash"].to_numpy()
    unnamed = rows.filter(pa.array(~contains(live, hashes)))
    old = is_old_column(unnamed["last_modified"].combine_chunks(), config.cutoff)
    asked = unnamed.filter(pa.array(old))
    there = still_there(run.open_store(), config.cutoff, config.threads, asked)
    going, held = without_pinned(there, config.pinned)
    spared, going = (going, going.slice(0, 0)) if config.keep_all else (going.slice(0, 0), going)
    counts = {"asked": asked.num_rows}
    young = unnamed.filter(pa.array(~old))
    for name, table in (("candidates", going), ("pinned", held), ("spared", spared), ("young", young)):
        counts |= {f"{name}_objects": table.num_rows, f"{name}_bytes": bytes_of(table)}
    tables = [going] if going.num_rows else []
    run.progress.add(rows.num_rows)
    name = f"{ListCandidatesOutput.STEP}/_absent/{task.shard:04d}.ids"
    return SelectResult(
        parts=write_candidates(run.folder, "chunks", task.shard, tables, config.candidate_rows),
        counts=counts,
        absent=write_hashes(run.folder, name, native[~contains(hashes, native)]),
    )


def find_in_inventory(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    dead: Sequence[NameResult],
    pinned: tuple[LocatedSet, ...],
) -> None:
    """Find deletable chunks, and absent live chunks.

    Raises:
        RefusedError: the inventory has changed, or has no chunks although some are live.
        FormatError: a file of it, or a live manifest, is missing or damaged.
    """
    mark, contents = record.input(MarkOutput), _same_inventory(run)
    shares = round_robin(contents.files, run.num_tasks(runner, len(contents.files)))
    tasks = [
        InventoryTask(name=f"inventory-{number:05d}", files=share) for number, share in enumerate(shares)
    ]
    config = InventoryConfig(layout=contents.layout, bits=mark.chunk_bits)
    read: list[InventoryResult] = run.spread(
        runner, ListCandidatesOutput.STEP, name_inventory, config, tasks, "objects"
    )
    if mark.chunks and not any(result.objects for result in read):
        raise RefusedError(
            f"inventory {contents.source.uri} has no object below {run.plan.uri.rstrip('/')}/{CHUNKS}, although"
            " chunks are live: it is of other prefixes. Nothing was deleted. Use another inventory, or none (then the"
            " run lists the store)."
        )
    totals = Counter(
        listed_objects=sum(result.objects for result in read),
        listed_bytes=sum(result.size_bytes for result in read),
        foreign=sum(result.foreign for result in read),
    )
    shards = [[result.shards for result in read], [result.shards for result in dead]]
    absent = _select(run, runner, record, [item for group in shards for item in group], totals, pinned)
    totals["absent"] = ask_beyond_inventory(run, runner, record, mark, absent)
    record.counts.update({f"chunks_{name}": value for name, value in totals.items()})
    record.counts["inventory_rows"] = sum(result.rows for result in read)
    record.details["inventory"] = to_json(contents.source)


def _same_inventory(run: Run) -> Contents:
    planned = run.plan.inventory
    assert planned is not None
    # The plan's step checked its age.
    found = find_inventory(planned.uri, run.plan.uri, run.store_now(), timedelta.max, run.options)
    if found.source != planned:
        raise RefusedError(
            f"inventory {planned.uri} has changed since the run was planned. Nothing was deleted. Start a new run."
        )
    return found


def _select(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    found: Sequence[dict[int, PartInfo]],
    totals: Counter[str],
    pinned: tuple[LocatedSet, ...],
) -> list[PartInfo]:
    settings, mark = run.plan.config.tuning, record.input(MarkOutput)
    tasks = [
        SelectTask(shard=shard, rows=[parts[shard] for parts in found if shard in parts], live=live)
        for shard, live in enumerate(mark.chunk_shards)
    ]
    config = SelectConfig(
        cutoff=run.plan.cutoff,
        candidate_rows=settings.candidate_rows,
        threads=settings.threads,
        pinned=pinned,
        keep_all="chunks" in run.plan.config.kept_kinds,
    )
    results: list[SelectResult] = run.spread(
        runner, ListCandidatesOutput.STEP, select_unnamed, config, tasks, "shards", len(tasks)
    )
    for result in results:
        record.parts += result.parts
        totals.update(result.counts)
    return [result.absent for result in results if result.absent.rows]
