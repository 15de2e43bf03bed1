"""Which slices have to be listed again, because a restore has brought objects back into them.

An optimized run passes over slices that earlier runs have covered, and what a restore puts there is in no pending list:
it was deleted. So the pin of a restore notes the slices, and runs list them until one that is complete has seen all
that came back as old as a candidate is: its cutoff is after the end of the restore, or after that of the pin where the
restore died and nobody knows when its last request was done. What nothing names is in the pending list from then on.

Intervals of time stand for slices, a bounded number of them; more slices than needed may be listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.runs.coverage import Coverage
from dredge.runs.lifetimes import is_run_id
from dredge.undo.pins import Pin
from dredge.xid import descending_time

INTERVALS_MAX = 1000
_SECOND = timedelta(seconds=1)


def slices_of(addresses: pa.ChunkedArray | pa.Array) -> Coverage:
    """The slices that some objects lie in: folders below the first one whose names tell a time. The others are listed
    by every run; collectors without such folders have none.

    Args:
        addresses: such as `data/<slice>/<name>`.
    """
    found = pc.unique(pc.struct_field(pc.extract_regex(addresses, "^[^/]+/(?P<slice>[^/]+)/"), "slice"))
    opened = [descending_time(name) for name in found.to_pylist() if name is not None and is_run_id(name)]
    return Coverage.of((at, at + _SECOND) for at in opened).at_most(INTERVALS_MAX)


def unite_slices(found: Iterable[Coverage]) -> Coverage:
    """All slices of several, and perhaps more."""
    return Coverage.of(interval for slices in found for interval in slices.intervals).at_most(INTERVALS_MAX)


def is_seen(pin: Pin, cutoff: datetime) -> bool:
    """Whether a complete run with a cutoff has seen everything that came back under a pin, if it listed its slices.

    Args:
        pin: of a restore.
        cutoff: of the run.
    """
    return (pin.finished_at or pin.until) < cutoff


def slices_to_list(pins: Iterable[Pin], cutoff: datetime) -> Coverage:
    """The slices that a run has to list whatever earlier runs have covered.

    Args:
        pins: also those that have ended.
        cutoff: of the complete run that it builds on.
    """
    return unite_slices(pin.slices for pin in pins if not is_seen(pin, cutoff))
