"""The kinds of objects in a repository, the folder of each, and the order in which they are deleted."""

from __future__ import annotations

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
    """Give what should be ids in the keys of a kind: the names of files; of old repo infos the ends of their names.

    Args:
        kind: of the objects.
        keys: relative to the repository.
    """
    return pc.utf8_slice_codeunits(keys, -ID_CHARS if kind == OVERWRITTEN else len(FOLDERS[kind]))
