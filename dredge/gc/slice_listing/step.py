"""Slice listing: what the store holds below `data/`, written in full before anything else is read.

Every object older than the cutoff becomes a row; younger ones are only counted, unless their slice will not be
listed again. Names decide nothing: an object's age is the store's Last-Modified, and its address is its key as the
store words it. Only which slices an optimized run leaves out is read from their names, and a slice whose name says
nothing is never left out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from dredge.gc.config import CLEAN
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.slice_listing.from_inventory import read_inventory
from dredge.gc.slice_listing.items import ListConfig, ListResult, ListTask, list_items
from dredge.gc.slice_listing.output import SliceListingOutput, unlisted_text
from dredge.gc.slice_listing.slices import OUTSIDE, Item, choose_slices
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner, round_robin
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
