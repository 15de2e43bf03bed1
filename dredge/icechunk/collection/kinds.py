"""The kinds of objects in a repository: their folders in the order of deletion, and their age."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.icechunk.format.metadata import OVERWRITTEN as OVERWRITTEN_FOLDER
from dredge.icechunk.ids import ID_CHARS
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS

OBJECT_FOLDERS = {
    "snapshots": SNAPSHOTS,
    "transactions": TRANSACTIONS,
    "manifests": MANIFESTS,
    "chunks": CHUNKS,
}
"""Folder by kind, for objects with an id as their name. Referring kinds precede the kinds that they refer to."""
OVERWRITTEN = "overwritten"
"""The kind of old copies of the repo info. Spec 2 writes one at every change."""
FOLDERS = {**OBJECT_FOLDERS, OVERWRITTEN: OVERWRITTEN_FOLDER}
"""Folder by kind, in the order of deletion."""
NAMES = {
    "snapshots": "snapshots",
    "transactions": "transaction logs",
    "manifests": "manifests",
    "chunks": "chunks",
    OVERWRITTEN: "old repo infos",
}
"""Names of the kinds in texts."""

_ROUNDED = timedelta(seconds=1)
_ROUNDED_MICROS = 1_000_000


def names_of(kind: str, keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Cut the ids out of the keys of a kind: the names of files, or their ends for old repo infos."""
    return pc.utf8_slice_codeunits(keys, -ID_CHARS if kind == OVERWRITTEN else len(FOLDERS[kind]))


def is_old(last_modified: datetime, cutoff: datetime) -> bool:
    """Whether an object was written before the cutoff, by the store's clock."""
    return (last_modified if last_modified.microsecond else last_modified + _ROUNDED) < cutoff


def is_old_column(times: pa.Array, cutoff: datetime) -> npt.NDArray[np.bool_]:
    """Compare many times with the cutoff; see `is_old`."""
    micros = times.cast(pa.int64()).to_numpy()
    micros = micros + np.where(micros % _ROUNDED_MICROS == 0, _ROUNDED_MICROS, 0)
    limit = pa.scalar(cutoff, pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py()
    found: npt.NDArray[np.bool_] = micros < limit
    return found
