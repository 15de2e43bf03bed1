"""The kinds of objects in a repository, the folder of each, and the order in which they are deleted.

Old enough to be deleted: strictly before the cutoff, by the store's clock.

A store that rounds down to whole seconds may have written an object up to a second later than it says. So a time of
whole seconds counts as one second later.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.icechunk.format.repo_info import OVERWRITTEN as OVERWRITTEN_FOLDER
from dredge.icechunk.ids import ID_CHARS
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS

OBJECT_FOLDERS = {
    "snapshots": SNAPSHOTS,
    "transactions": TRANSACTIONS,
    "manifests": MANIFESTS,
    "chunks": CHUNKS,
}
"""Folder by kind, for objects that are named by an id. What names something stands before what it names."""
OVERWRITTEN = "overwritten"
"""The kind of old copies of the repo info, which spec 2 leaves at every change."""
FOLDERS = {**OBJECT_FOLDERS, OVERWRITTEN: OVERWRITTEN_FOLDER}
"""Folder by kind, in the order of deleting."""
NAMES = {
    "snapshots": "snapshots",
    "transactions": "transaction logs",
    "manifests": "manifests",
    "chunks": "chunks",
    OVERWRITTEN: "old repo infos",
}
"""What people call them."""


def names_of(kind: str, keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Give what should be ids in the keys of a kind: the names of files; of old repo infos the ends of their names."""
    return pc.utf8_slice_codeunits(keys, -ID_CHARS if kind == OVERWRITTEN else len(FOLDERS[kind]))


_ROUNDED = timedelta(seconds=1)
_ROUNDED_MICROS = 1_000_000


def is_old(last_modified: datetime, cutoff: datetime) -> bool:
    """Tell whether an object was written before the cutoff."""
    return (last_modified if last_modified.microsecond else last_modified + _ROUNDED) < cutoff


def is_old_column(times: pa.Array, cutoff: datetime) -> npt.NDArray[np.bool_]:
    """Tell for each of many objects whether it was written before the cutoff; see `is_old`."""
    micros = times.cast(pa.int64()).to_numpy()
    micros = micros + np.where(micros % _ROUNDED_MICROS == 0, _ROUNDED_MICROS, 0)
    limit = pa.scalar(cutoff, pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py()
    found: npt.NDArray[np.bool_] = micros < limit
    return found
