"""Estimates the rows of a step from earlier steps. The choice between Spark and the driver uses them."""

from contextlib import suppress

import pyarrow.compute as pc

from dredge.errors import DredgeError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput, choose_slices
from dredge.gc.state import base_of, open_base
from dredge.gc.subtract import SubtractOutput


def rows_of(run: Run, step: str) -> int | None:
    """Estimate the number of objects or addresses of a step; None if unknown before the step."""
    match step:
        case SliceListingOutput.STEP:
            return _to_list(run)
        case ListCommittedOutput.STEP:
            return _to_read(run)
        case SubtractOutput.STEP:
            return _to_compare(run)
        case BulkDeleteOutput.STEP:
            found = run.folder.read_output(SubtractOutput)
            return None if found is None else found.counts["candidates_objects"]
    return None


def _to_list(run: Run) -> int | None:
    if run.plan.mode == CLEAN:
        return _counted_before(run)
    base = base_of(run)
    if base is None:
        return None
    try:
        level = run.reader.list_level(DATA)
    except NotFoundError:
        return 0
    # Slices have similar numbers of objects: lakeFS starts a new slice after a number of objects.
    chosen = len(choose_slices(run.plan, level.folders)[0])
    return len(level.objects) + base.state.objects * chosen // max(1, len(level.folders) - chosen)


def _counted_before(run: Run) -> int | None:
    if run.plan.state is None:
        return None
    with suppress(DredgeError, ValueError):
        return open_base(run, run.plan.state).state.objects
    return None


def _to_read(run: Run) -> int | None:
    # Only new ranges are read, about as many rows as were listed.
    before = _counted_before(run) if run.plan.mode == CLEAN else base_of(run)
    return None if before is None else _listed_rows(run)


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
