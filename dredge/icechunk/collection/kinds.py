"""The kinds of objects in a repository, the folder of each, and the order in which they are deleted."""

from __future__ import annotations

from dredge.icechunk.format.repo_info import OVERWRITTEN as OVERWRITTEN_FOLDER
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
