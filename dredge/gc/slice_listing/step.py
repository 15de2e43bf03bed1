"""Step slice_listing: the objects of the store below `data/`, written in full before the other inputs are read.

Every object older than the cutoff becomes a row. Younger objects are only counted, unless their slice will not be
listed again. The age of an object is the store's Last-Modified, and its address is its key as the store gives it.
Names only decide which slices an optimized run skips; a slice with an unknown name is never skipped.

With an inventory of the bucket, its files become the same rows. An object missing from it is not collected, which
does no harm. But a slice missing from it would count as covered, and a missing prefix as empty: such an inventory is
refused.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import FormatError, RefusedError
from dredge.gc.config import CLEAN
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.run import Plan, Run
from dredge.gc.slice_listing.slices import (
    OLD,
    OUTSIDE,
    YOUNG,
    Item,
    ListConfig,
    Listed,
    ListResult,
    ListTask,
    PartSink,
    SliceListingOutput,
    check_times,
    choose_slices,
    count_outside,
    list_items,
    note_foreign,
    slice_time,
    sort_by_age,
    unlisted_text,
)
from dredge.inventory.manifest import Contents, InventoryFile, Layout, find_again
from dredge.inventory.rows import downloaded, read_rows
from dredge.runs.payload import StepSummary
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function
from dredge.storage import Level

log = logging.getLogger("dredge")

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
_REASONS = ("young", "again", "covered", "other")
_PER_REQUEST = 1000
_SHOWN_MAX = 5


def slice_listing(run: Run, runner: TaskRunner) -> StepSummary:
    """List `data/`, all slices at once, and write every object older than the cutoff.

    An optimized run lists the uncovered slices of its window, and slices with restored objects. A clean run may be
    planned on an inventory. Raises RefusedError: an object without a usable time, or an incomplete inventory;
    FormatError: a missing or damaged file of an inventory."""
    level = Ahead(lambda _: run.reader.list_level(DATA))
    return run.step(
        SliceListingOutput,
        lambda record: _list(run, runner, record, level.result(record.inputs)),
        ahead=level,
    )


def _list(run: Run, runner: TaskRunner, record: StepRecord, level: Level) -> None:
    if run.plan.inventory is None:
        rounds, results = _list_all(run, runner, _choose_items(run, level, record))
    else:
        rounds, results = 0, _read_inventory(run, runner, record, level.folders)
        record.counts.update({f"{why}_slices": 0 for why in _REASONS}, slices=len(level.folders))
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
    _warn_of_ignored(record, totals)


def _choose_items(run: Run, level: Level, record: StepRecord) -> list[Item]:
    """The items of the first round: each slice, and the objects outside of slices."""
    chosen, counts = choose_slices(run.plan, level.folders)
    record.counts.update({f"{why}_slices": counts[why] for why in _REASONS}, slices=len(level.folders))
    if text := unlisted_text(counts["young"], len(level.folders)):
        log.info("run %s: %s", run.plan.run_id, text)
    items = [*(OUTSIDE if run.plan.mode == CLEAN else ())]  # several requests in a row, so they begin first
    if level.objects:
        items.append(Item(DATA, kind="level"))
    return items + [Item(folder) for folder in chosen]


def _list_all(run: Run, runner: TaskRunner, items: list[Item]) -> tuple[int, list[ListResult]]:
    """List items in rounds: the rest of a long item is cut and listed in the next round.

    The last round lists items of any length, so no rest remains.
    """
    tuning = run.plan.config.tuning
    config = _config(run.plan)
    found: list[ListResult] = []
    for turn in range(tuning.listing_rounds_max + 1):
        shares = run.shares(runner, items)
        tasks = [ListTask(name=f"r{turn}-{number:05d}", items=share) for number, share in enumerate(shares)]
        results = run.spread(runner, SliceListingOutput.STEP, list_items, config, tasks, "objects")
        found.extend(results)
        items = [item for result in results for item in result.rest]
        if turn + 1 == tuning.listing_rounds_max:
            items = [replace(item, capped=False) for item in items]
        if not items:
            break
    return turn + 1, found


def _config(plan: Plan) -> ListConfig:
    return ListConfig(
        cutoff=plan.cutoff,
        covers_until=plan.covers_until,
        rows_max=plan.config.tuning.listing_rows_max,
        part_rows=plan.config.tuning.part_rows,
        threads=plan.config.tuning.threads,
    )


def _warn_of_ignored(record: StepRecord, totals: Mapping[str, int]) -> None:
    if totals["root_objects"]:
        record.warn(
            f"{totals['root_objects']:,} objects are directly in the namespace root (the layout of"
            " lakeFS before 0.84); they are kept"
        )
    if totals["unnamed_objects"]:
        record.warn(f"{totals['unnamed_objects']:,} objects have names that are no valid keys; they are kept")


class ReadTask(Struct, frozen=True, kw_only=True):
    """Some files of the inventory; the task's name is in the names of its files."""

    name: str
    layout: Layout  # of the inventory's files
    files: list[InventoryFile]


def _read_inventory(
    run: Run, runner: TaskRunner, record: StepRecord, folders: Iterable[str]
) -> list[ListResult]:
    """Read the inventory of the plan; `folders` are the keys of the folders directly below `data/` now."""
    contents = find_again(run.plan.inventory, run.plan.namespace, run.store_now(), run.options)
    tasks = [
        ReadTask(name=f"i{number:05d}", layout=contents.layout, files=share)
        for number, share in enumerate(run.shares(runner, contents.files))
    ]
    results = run.spread(runner, SliceListingOutput.STEP, read_files, _config(run.plan), tasks, "objects")
    _check_complete(run, contents, {name for result in results for name in result.slices}, set(folders))
    totals = Counter[str]()
    for result in results:
        totals.update(result.counts)
    record.counts.update(
        inventory_files=len(contents.files),
        inventory_rows=totals["inventory_rows"],
        inventory_other_versions=totals["other_versions"],
        list_requests_left_out=(totals["old_objects"] + totals["young_objects"]) // _PER_REQUEST,
    )
    record.details["inventory"] = contents.source
    return results


@partition_function
def read_files(run: WorkerRun, config: ListConfig, task: ReadTask) -> ListResult:
    """Read files of the inventory and write their objects as parts."""
    old = PartSink(run.folder, f"{OLD}-{task.name}", config.part_rows)
    young = PartSink(run.folder, f"{YOUNG}-{task.name}", config.part_rows)
    total, slices = Listed(), set[str]()
    for file in task.files:
        with downloaded(file) as path:
            for batch in read_rows(path, file.uri, task.layout, total.counts):
                found = _sorted(batch, config, total, slices)
                run.progress.add(batch.num_rows)
                old.add(found.old)
                young.add([_of_covered_slices(rows, config.covers_until) for rows in found.young])
    parts = [*old.finish(), *young.finish()]
    return ListResult(
        parts=parts, counts=dict(total.counts), foreign=sorted(total.foreign), slices=sorted(slices)
    )


def _sorted(batch: pa.RecordBatch, config: ListConfig, total: Listed, slices: set[str]) -> Listed:
    """Return the rows of a batch by age; add its figures to the total."""
    own = pc.or_(pc.starts_with(batch["key"], DATA), pc.starts_with(batch["key"], METADATA))
    count_outside(batch.filter(pc.invert(own)), total.counts)
    rows = batch.filter(pc.starts_with(batch["key"], DATA))
    # A key with a trailing slash, which some tools write for a prefix, is an object like any other.
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
    """The folder directly below `data/` of each key; "" for an object directly in `data/`."""
    return pc.struct_field(pc.extract_regex(keys, f"^(?P<folder>{DATA}[^/]*/|)"), "folder")


def _of_covered_slices(rows: pa.Table, covers_until: datetime) -> pa.Table:
    folders = _folders(rows["address"].combine_chunks())
    covered = [
        folder
        for folder in pc.unique(folders).to_pylist()
        if (opened := slice_time(folder)) is not None and opened < covers_until
    ]
    return rows.filter(pc.is_in(folders, pa.array(covered, pa.string())))


def _check_complete(run: Run, contents: Contents, seen: set[str], there: set[str]) -> None:
    """Refuse an inventory without slices that exist and were opened long before it."""
    created, margin = contents.source.created_at, timedelta(hours=run.plan.config.slice_margin_hours)
    if there and not seen:
        raise RefusedError(
            f"inventory {contents.source.uri} has no object below {run.plan.namespace.rstrip('/')}/{DATA}, but the"
            " store has some: it is of other prefixes, or older than all of them. Nothing was deleted. Make an"
            " inventory of this prefix."
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
            f"inventory {contents.source.uri} is not complete: it lacks {len(missing):,} slices that were opened long"
            f" before it, such as {', '.join(missing[:_SHOWN_MAX])}. Nothing was deleted. Make an inventory of the"
            " whole prefix of the namespace, or set none: then the run lists the store."
        )
