"""Brings back single objects under a run's own lease: pinned, put back, and only what came back stays pinned.

A restore by hand (`restore.step`) is a run of its own; this is for a collection that finds live objects among what
earlier runs deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import ObjectWriter, StorageOptions
from dredge.storage.parallel import ordered_map
from dredge.undo.came_back import slices_of
from dredge.undo.pins import Pin, narrow_pin, pin_folder, write_pin
from dredge.undo.restore.output import RESTORED, THERE
from dredge.undo.restore.putting_back import PuttingBack, Restored
from dredge.xid import new_descending_xid

KEEP_DAYS = 30.0
_AT_ONCE = 16
_BACK = (RESTORED, THERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Some of a run's deletions.

    Attributes:
        run_id: the run that deleted.
        run_uri: URI of its folder.
        way: how its deletions can be taken back.
        rows: as `swept_rows` gives them.
    """

    run_id: str
    run_uri: str
    way: str
    rows: pa.Table


def bring_back(
    namespace: str,
    state: ObjectWriter,
    source: Source,
    reason: str,
    now: Callable[[], datetime],
    options: StorageOptions | None = None,
) -> list[Restored]:
    """Bring back some objects that a run deleted, and pin what came back. The caller holds the lease.

    Args:
        namespace: URI of what was collected.
        state: on the folder of lease and index.
        source: which objects.
        reason: for the pin.
        now: gives the store's time.
        options: None reads the environment.

    Returns:
        What became of each row, in their order.
    """
    at = now()
    pin_id = new_descending_xid(at)
    folder = pin_folder(state.uri, pin_id, options)

    def pinned(rows: pa.Table, name: str) -> tuple[LocatedSet, ...]:
        if not rows.num_rows:
            return ()
        part = write_hashes(folder, name, unite([rows["hash"].to_numpy()]))
        return (LocatedSet(folder.uri, ShardedSet(0, {0: part})),)

    rows = source.rows
    write_pin(
        state,
        Pin(
            pin_id=pin_id,
            run_id=source.run_id,
            reason=reason,
            created_at=at,
            until=at + timedelta(days=KEEP_DAYS),
            objects=rows.num_rows,
            size_bytes=pc.sum(rows["size"]).as_py() or 0,
            sets=pinned(rows, "hashes-all-0.u64"),
            slices=slices_of(rows["address"]),
        ),
    )
    putting = PuttingBack(namespace, source.run_uri, source.way)
    found = list(ordered_map(putting.put_back, rows.to_pylist(), _AT_ONCE))
    back = rows.filter(pa.array([item.outcome in _BACK for item in found], pa.bool_()))
    size_bytes = pc.sum(back["size"]).as_py() or 0
    narrow_pin(state, pin_id, pinned(back, "hashes-back-0.u64"), back.num_rows, size_bytes, now())
    return found


def outcomes_of(rows: Sequence[Restored]) -> tuple[pa.Array, pa.Array]:
    """Outcomes and messages as columns."""
    return pa.array([item.outcome for item in rows], pa.string()), pa.array(
        [item.message for item in rows], pa.string()
    )
