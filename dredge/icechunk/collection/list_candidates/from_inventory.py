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
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.collection.absent import ask_beyond_inventory
from dredge.icechunk.collection.list_candidates.chunks import (
    GATHERED_MAX,
    NameResult,
    bytes_of,
    once,
    select,
    write_by_shard,
)
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.repository import CHUNKS
from dredge.inventory.manifest import Contents, InventoryFile, Layout, find_inventory
from dredge.inventory.rows import downloaded, read_rows
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.live import LocatedSet
from dredge.storage.listing_schema import LISTING_SCHEMA


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


@partition_function
def name_inventory(run: WorkerRun, config: InventoryConfig, task: InventoryTask) -> NameResult:
    """Write the chunks in some files of an inventory, each once."""
    counts: Counter[str] = Counter()
    waiting: list[pa.Table] = []
    for file in task.files:
        with downloaded(file) as path:
            for batch in read_rows(path, file.uri, config.layout, counts):
                rows = pa.Table.from_batches([batch])
                waiting.append(_chunks_of(rows.filter(pc.starts_with(rows["key"], CHUNKS)), counts))
                run.progress.add(batch.num_rows)
                if sum(table.num_rows for table in waiting) > GATHERED_MAX:
                    waiting = [once(waiting)]
    shards = write_by_shard(run.folder, config.bits, task.name, once(waiting))
    return NameResult(shards=shards, counts=dict(counts))


def _chunks_of(rows: pa.Table, counts: Counter[str]) -> pa.Table:
    if rows["size"].null_count or rows["last_modified"].null_count:
        raise FormatError("the inventory has no size or no time for some chunks. Nothing was deleted.")
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
    """Find deletable chunks, and absent live chunks. Raises RefusedError: the inventory has changed, or has no chunks
    although some are live; FormatError: a file of it, or a live manifest, is missing or damaged."""
    mark, contents = record.input(MarkOutput), _same_inventory(run)
    shares = round_robin(contents.files, run.num_tasks(runner, len(contents.files)))
    tasks = [
        InventoryTask(name=f"inventory-{number:05d}", files=share) for number, share in enumerate(shares)
    ]
    config = InventoryConfig(layout=contents.layout, bits=mark.chunk_bits)
    read = run.spread(runner, ListCandidatesOutput.STEP, name_inventory, config, tasks, "objects")
    counts = sum((Counter(result.counts) for result in read), Counter[str]())
    if mark.chunks and not counts["listed_objects"]:
        raise RefusedError(
            f"inventory {contents.source.uri} has no object below {run.plan.uri.rstrip('/')}/{CHUNKS}, although"
            " chunks are live: it is of other prefixes. Nothing was deleted. Use another inventory, or none (then the"
            " run lists the store)."
        )
    found = [*(result.shards for result in read), *(result.shards for result in dead)]
    totals, absent = select(run, runner, record, found, pinned, None, mark.chunk_shards)
    figures = {**totals, **{name: counts[name] for name in ("listed_objects", "listed_bytes", "foreign")}}
    figures["absent"] = ask_beyond_inventory(run, runner, record, mark, absent)
    record.counts.update({f"chunks_{name}": value for name, value in figures.items()})
    record.counts["inventory_rows"] = counts["inventory_rows"]
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
