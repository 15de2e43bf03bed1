"""Estimates the rows of a step from earlier steps. The choice between Spark and the driver uses them."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import pyarrow.compute as pc

from dredge.errors import DredgeError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput, choose_slices, slice_time
from dredge.gc.state import base_of, open_base
from dredge.gc.subtract import SubtractOutput
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

# Slices that are counted without an earlier run, and names read of each.
_SAMPLE = 8
_NAMES = 5_000
# lakeFS starts a new slice after as many names, or after an hour.
_NAMES_MAX = 50_000


def rows_of(run: Run, step: str) -> int | None:
    """Estimate the number of objects or addresses of a step; None if unknown before the step."""
    match step:
        case SliceListingOutput.STEP:
            return _to_list(run)
        case ListCommittedOutput.STEP:
            # A later run reads new ranges only. The first one may read more rows; see `LocalRunner.rows_max`.
            return _listed_rows(run)
        case SubtractOutput.STEP:
            return _to_compare(run)
        case BulkDeleteOutput.STEP:
            found = run.folder.read_output(SubtractOutput)
            return None if found is None else found.counts["candidates_objects"]
    return None


def _to_list(run: Run) -> int | None:
    counted = _counted_before(run) if run.plan.mode == CLEAN else None
    if counted is not None or run.plan.inventory is not None:
        return counted
    try:
        level = run.reader.list_level(DATA)
    except NotFoundError:
        return 0
    base = base_of(run)
    if base is None:
        objects = _sample(run.reader, level.folders)
        return None if objects is None else len(level.objects) + objects
    # Slices have similar numbers of objects: lakeFS starts a new slice after a number of objects.
    chosen = len(choose_slices(run.plan, level.folders)[0])
    return len(level.objects) + base.state.objects * chosen // max(1, len(level.folders) - chosen)


def _sample(reader: ObjectReader, folders: Sequence[str]) -> int | None:
    """Estimate the objects of slices from some of them; None with folders that are no slices of lakeFS."""
    if any(slice_time(folder) is None for folder in folders):
        return None
    chosen = folders[:: max(1, len(folders) // _SAMPLE)][:_SAMPLE]
    counts = ordered_map(partial(_count, reader), chosen, _SAMPLE)
    return sum(counts) * len(folders) // max(1, len(chosen))


def _count(reader: ObjectReader, folder: str) -> int:
    names = 0
    for batch in reader.list(folder):
        names += batch.num_rows
        if names >= _NAMES:
            return _NAMES_MAX
    return names


def _counted_before(run: Run) -> int | None:
    if run.plan.state is None:
        return None
    with suppress(DredgeError, ValueError):
        return open_base(run, run.plan.state).state.objects
    return None


def _to_compare(run: Run) -> int | None:
    rows, committed = _listed_rows(run), run.folder.read_output(ListCommittedOutput)
    if rows is None or committed is None:
        return None
    base = base_of(run)
    if base is None:
        return rows
    dropped = run.folder.read_part(committed.dropped, ["count"])["count"]
    return rows + (pc.sum(dropped).as_py() or 0) + sum(part.rows for part in base.state.staged)


def _listed_rows(run: Run) -> int | None:
    listing = run.folder.read_output(SliceListingOutput)
    return None if listing is None else sum(part.rows for part in (*listing.listed, *listing.young))
