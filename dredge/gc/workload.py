"""How much a step of a run has to do, as far as earlier steps tell: it decides whether Spark is worth its start."""

from __future__ import annotations

from contextlib import suppress

import pyarrow.compute as pc

from dredge.errors import DredgeError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput, choose_slices
from dredge.gc.state.base import base_of, open_base
from dredge.gc.subtract import SubtractOutput


def rows_of(run: Run, step: str) -> int | None:
    """How many objects or addresses a step works on.

    Nothing depends on the figure but where the step is done.

    Args:
        run: a planned run.
        step: its name.

    Returns:
        None where it cannot be told before the step is begun.
    """
    match step:
        case SliceListingOutput.STEP:
            return _to_list(run)
        case ListCommittedOutput.STEP:
            return _to_read(run)
        case SubtractOutput.STEP:
            return _to_compare(run)
        case BulkDeleteOutput.STEP:
            return _to_delete(run)
    return None


def _to_list(run: Run) -> int | None:
    """About as many objects as the slices of an optimized run have: slices are cut at a number of objects. A clean run
    lists about as many as the one before it."""
    if run.plan.mode == CLEAN:
        return _counted_before(run)
    base = base_of(run)
    if base is None:
        return None
    try:
        level = run.reader.list_level(DATA)
    except NotFoundError:
        return 0
    chosen = len(choose_slices(run.plan, level.folders)[0])
    return len(level.objects) + base.state.objects * chosen // max(1, len(level.folders) - chosen)


def _counted_before(run: Run) -> int | None:
    """The objects that the last clean run left; a clean run does without, where that cannot be read."""
    if run.plan.state is None:
        return None
    with suppress(DredgeError, ValueError):
        return open_base(run, run.plan.state).state.objects
    return None


def _to_read(run: Run) -> int | None:
    """What was listed: about as much as was committed since the run before, and only new ranges are read."""
    if (_counted_before(run) if run.plan.mode == CLEAN else base_of(run)) is None:
        return None
    summary = run.folder.read_summary(SliceListingOutput.STEP)
    if summary is None:
        return None
    listing = SliceListingOutput.of(summary)
    return sum(part.rows for part in (*listing.listed, *listing.young))


def _to_compare(run: Run) -> int | None:
    """Rows of the listing, and what earlier runs knew of."""
    listing, committed = (
        run.folder.read_summary(item.STEP) for item in (SliceListingOutput, ListCommittedOutput)
    )
    if listing is None or committed is None:
        return None
    listed = SliceListingOutput.of(listing)
    rows = sum(part.rows for part in (*listed.listed, *listed.young))
    base = base_of(run)
    if base is None:
        return rows
    dropped = run.folder.read_part(ListCommittedOutput.of(committed).dropped, ["count"])["count"]
    rows += pc.sum(dropped).as_py() or 0
    return rows + sum(part.rows for part in base.state.staged)


def _to_delete(run: Run) -> int | None:
    found = run.folder.read_summary(SubtractOutput.STEP)
    return None if found is None else SubtractOutput.of(found).counts["candidates_objects"]
