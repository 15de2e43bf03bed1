"""The listing, taken from an inventory: its files are read side by side, and become the same rows.

What an inventory lacks is not collected, so it can be too small without harm to an object. But slices that it should
have seen and did not would count as covered, and a whole prefix that it leaves out would be taken for empty: such an
inventory is refused.

Slice listing: what the store holds below `data/`, written in full before anything else is read.

Every object older than the cutoff becomes a row; younger ones are only counted, unless their slice will not be
listed again. Names decide nothing: an object's age is the store's Last-Modified, and its address is its key as the
store words it. Only which slices an optimized run leaves out is read from their names, and a slice whose name says
nothing is never left out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, RefusedError
from dredge.gc.config import CLEAN
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.run import Run
from dredge.gc.slice_listing.items import (
    ListConfig,
    Listed,
    ListResult,
    ListTask,
    PartSink,
    check_times,
    list_items,
    note_foreign,
    sort_by_age,
)
from dredge.gc.slice_listing.slices import (
    OLD,
    OUTSIDE,
    YOUNG,
    Item,
    SliceListingOutput,
    choose_slices,
    slice_time,
    unlisted_text,
)
from dredge.inventory.manifest import Contents, InventoryFile, Layout, find_inventory
from dredge.inventory.rows import downloaded, read_rows
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.storage import Level

log = logging.getLogger("dredge")

_PER_REQUEST = 1000
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """What all tasks need; a payload.

    Attributes:
        layout: how files are read.
        cutoff: objects modified strictly before this become rows of old objects.
        covers_until: slices opened before this are not listed again, so their young objects become rows as well.
        part_rows: rows after which a file is written.
    """

    layout: Layout
    cutoff: datetime
    covers_until: datetime
    part_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Some files of the inventory; a payload.

    Attributes:
        name: distinguishes the task's files from those of all other tasks of the step.
        files: to be read.
    """

    name: str
    files: list[InventoryFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a task read; a payload.

    Attributes:
        listed: as if it had been listed.
        slices: folders directly below `data/` that have objects.
    """

    listed: ListResult
    slices: list[str]


def read_inventory(
    run: Run, runner: TaskRunner, record: StepRecord, folders: Iterable[str]
) -> list[ListResult]:
    """Read the inventory that the run was planned on.

    Args:
        run: this run.
        runner: spreads the files.
        record: of the step.
        folders: keys of the folders that are directly below `data/` now.

    Raises:
        RefusedError: it is another inventory by now, or lacks slices that it should have.
        FormatError: a file is missing or damaged.
    """
    contents = _same_inventory(run)
    plan = run.plan
    shares = round_robin(contents.files, run.num_tasks(runner, len(contents.files)))
    tasks = [ReadTask(name=f"i{number:05d}", files=share) for number, share in enumerate(shares)]
    config = ReadConfig(
        layout=contents.layout,
        cutoff=plan.cutoff,
        covers_until=plan.covers_until,
        part_rows=plan.config.tuning.part_rows,
    )
    results = run.spread(runner, SliceListingOutput.STEP, read_files, config, tasks, "objects")
    _check_complete(run, contents, {name for result in results for name in result.slices}, set(folders))
    listed = [result.listed for result in results]
    _note_figures(record, contents, listed)
    return listed


def _same_inventory(run: Run) -> Contents:
    """The inventory of the plan, found anew; its age was looked at when the run was planned."""
    planned = run.plan.inventory
    assert planned is not None
    found = find_inventory(planned.uri, run.plan.namespace, run.store_now(), timedelta.max, run.options)
    if found.source != planned:
        raise RefusedError(
            f"inventory {planned.uri} is another one than when the run was planned. Nothing was deleted. Start a"
            " new run."
        )
    return found


@partition_function
def read_files(run: WorkerRun, config: ReadConfig, task: ReadTask) -> ReadResult:
    """Read some files of the inventory and write their objects as parts."""
    old = PartSink(run.folder, f"{OLD}-{task.name}", config.part_rows)
    young = PartSink(run.folder, f"{YOUNG}-{task.name}", config.part_rows)
    total, slices = Listed(), set[str]()
    for file in task.files:
        with downloaded(file) as path:
            for batch in read_rows(path, file.uri, config.layout, total.counts):
                found = _sorted(batch, config, total, slices)
                run.progress.add(batch.num_rows)
                old.add(found.old)
                young.add([_of_covered_slices(rows, config.covers_until) for rows in found.young])
    parts = [*old.finish(), *young.finish()]
    listed = ListResult(parts=parts, counts=dict(total.counts), rest=[], foreign=sorted(total.foreign))
    return ReadResult(listed=listed, slices=sorted(slices))


def _sorted(batch: pa.RecordBatch, config: ReadConfig, total: Listed, slices: set[str]) -> Listed:
    """The rows of a batch by age; figures go to the total."""
    _count_outside(batch, total.counts)
    rows = batch.filter(pc.starts_with(batch["key"], DATA))
    # A folder that some tools make of a prefix is no object of lakeFS's, but is one in every other sense.
    found = Listed()
    if rows.num_rows:
        if rows["size"].null_count:
            key = rows["key"].filter(pc.is_null(rows["size"]))[0].as_py()
            raise FormatError(f"the inventory gives no size for {key!r}. Nothing was deleted.")
        check_times(rows)
        note_foreign(rows, found)
        sort_by_age(rows, config.cutoff, found, will_be_covered=True)
        slices.update(pc.unique(_folders(rows["key"])).to_pylist())
        slices.discard("")
    total.counts.update(found.counts)
    total.foreign |= found.foreign
    return found


def _folders(keys: pa.Array) -> pa.Array:
    """The folder directly below `data/` of each key; "" for objects that are in none."""
    return pc.struct_field(pc.extract_regex(keys, f"^(?P<folder>{DATA}[^/]*/|)"), "folder")


def _of_covered_slices(rows: pa.Table, covers_until: datetime) -> pa.Table:
    folders = _folders(rows["address"].combine_chunks())
    covered = [
        folder
        for folder in pc.unique(folders).to_pylist()
        if (opened := slice_time(folder)) is not None and opened < covers_until
    ]
    return rows.filter(pc.is_in(folders, pa.array(covered, pa.string())))


def _count_outside(batch: pa.RecordBatch, counts: Counter[str]) -> None:
    """Count what a clean listing counts outside `data/` and `_lakefs/`."""
    own = pc.or_(pc.starts_with(batch["key"], DATA), pc.starts_with(batch["key"], METADATA))
    rest = batch.filter(pc.invert(own))
    nested = pc.match_substring(rest["key"], "/")
    root = rest.filter(pc.invert(pc.or_(nested, pc.equal(rest["key"], "dummy"))))
    counts["root_objects"] += root.num_rows
    counts["root_bytes"] += pc.sum(root["size"]).as_py() or 0
    counts["elsewhere_objects"] += pc.sum(nested).as_py() or 0


def _check_complete(run: Run, contents: Contents, seen: set[str], there: set[str]) -> None:
    """Refuse an inventory without slices that were opened long before it and are there."""
    created, margin = contents.source.created_at, timedelta(hours=run.plan.config.slice_margin_hours)
    if there and not seen:
        raise RefusedError(
            f"inventory {contents.source.uri} names no object below {run.plan.namespace.rstrip('/')}/{DATA}, where"
            " there are some: it is of other prefixes or older than all of them. Nothing was deleted."
        )
    if created is None:
        return
    missing = sorted(
        folder
        for folder in there - seen
        if (opened := slice_time(folder)) is not None and opened < created - margin
    )
    if missing:
        raise RefusedError(
            f"inventory {contents.source.uri} is not complete: {len(missing):,} slices are not in it that were opened"
            f" long before, such as {', '.join(missing[:_SHOWN_MAX])}. Nothing was deleted. Let it have the whole"
            " prefix of the namespace, or name none: then the store is listed."
        )


def _note_figures(record: StepRecord, contents: Contents, results: list[ListResult]) -> None:
    rows = sum(result.counts.get("inventory_rows", 0) for result in results)
    versions = sum(result.counts.get("other_versions", 0) for result in results)
    objects = sum(
        result.counts.get(name, 0) for result in results for name in ("old_objects", "young_objects")
    )
    record.counts.update(
        inventory_files=len(contents.files),
        inventory_rows=rows,
        inventory_other_versions=versions,
        list_requests_left_out=objects // _PER_REQUEST,
    )
    record.details["inventory"] = to_json(contents.source)


_COUNTS = (
    "old_objects",
    "old_bytes",
    "young_objects",
    "young_bytes",
    "root_objects",
    "root_bytes",
    "elsewhere_objects",
    "foreign_metadata",
    "unnamed_objects",
)


def slice_listing(run: Run, runner: TaskRunner) -> StepSummary:
    """List `data/`, all slices at once, and write every object older than the cutoff.

    An optimized run lists the slices of its window that no run has covered, and those that objects were brought back
    into. A clean one reads an inventory instead,
    where it was planned on one.

    Raises:
        RefusedError: an object without a usable time, or an inventory that lacks what it should have.
        FormatError: a file of an inventory is missing or damaged.
    """
    return run.step(SliceListingOutput, lambda record: _list(run, runner, record))


def _list(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    level = run.reader.list_level(DATA)
    if run.plan.inventory is None:
        rounds, results = _list_all(run, runner, _choose_items(run, level, record))
    else:
        rounds, results = 0, read_inventory(run, runner, record, level.folders)
        record.counts.update(
            slices=len(level.folders), young_slices=0, again_slices=0, covered_slices=0, other_slices=0
        )
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result.counts)
        record.parts.extend(result.parts)
    record.counts.update({name: totals[name] for name in _COUNTS})
    record.details.update(
        rounds=rounds,
        first_slice=level.folders[0].removeprefix(DATA).rstrip("/") if level.folders else "",
        foreign_folders=sorted({folder for result in results for folder in result.foreign}),
    )
    _warn_of_left_alone(record, totals)


def _choose_items(run: Run, level: Level, record: StepRecord) -> list[Item]:
    """What to list at first: an item for each slice, and for what lies outside the slices."""
    chosen = choose_slices(run.plan, level.folders)
    record.counts.update(
        slices=len(level.folders),
        young_slices=chosen.young,
        again_slices=chosen.again,
        covered_slices=chosen.covered,
        other_slices=chosen.other,
    )
    if text := unlisted_text(chosen.young, len(level.folders)):
        log.info("run %s: %s", run.plan.run_id, text)
    items = [Item(folder) for folder in chosen.listed]
    if level.objects:
        items.append(Item(DATA, kind="level"))
    if run.plan.mode == CLEAN:
        items.extend(OUTSIDE)
    return items


def _list_all(run: Run, runner: TaskRunner, items: list[Item]) -> tuple[int, list[ListResult]]:
    """List items in rounds: what tasks leave of long items in one is cut and listed in the next.

    The last round has no bound on the length of an item, so nothing is left after it.
    """
    tuning = run.plan.config.tuning
    config = ListConfig(
        cutoff=run.plan.cutoff,
        covers_until=run.plan.covers_until,
        rows_max=tuning.listing_rows_max,
        part_rows=tuning.part_rows,
        threads=tuning.threads,
    )
    found: list[ListResult] = []
    for turn in range(tuning.listing_rounds_max + 1):
        shares = round_robin(items, run.num_tasks(runner, len(items)))
        tasks = [ListTask(name=f"r{turn}-{number:05d}", items=share) for number, share in enumerate(shares)]
        results = run.spread(runner, SliceListingOutput.STEP, list_items, config, tasks, "objects")
        found.extend(results)
        items = [item for result in results for item in result.rest]
        if turn + 1 == tuning.listing_rounds_max:
            items = [replace(item, capped=False) for item in items]
        if not items:
            break
    return turn + 1, found


def _warn_of_left_alone(record: StepRecord, totals: Mapping[str, int]) -> None:
    if totals["root_objects"]:
        record.warn(
            f"{totals['root_objects']:,} objects lie directly in the namespace root (the layout of"
            " lakeFS before 0.84); they are left alone"
        )
    if totals["unnamed_objects"]:
        record.warn(
            f"{totals['unnamed_objects']:,} objects have names that no key can express; they are left alone"
        )
