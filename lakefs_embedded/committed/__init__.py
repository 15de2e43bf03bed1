"""The committed content of a repository: read, compared, changed, merged and written."""

from __future__ import annotations

from lakefs_embedded.committed.entries import commit_id
from lakefs_embedded.committed.merge import (
    Difference,
    DiffKind,
    MergeConflictError,
    Strategy,
    compare,
    diff,
    merge,
)
from lakefs_embedded.committed.store import RangeReader, RangeStore
from lakefs_embedded.committed.writing import Applied, Change, MetaRangeWriter, apply

__all__ = [
    "Applied",
    "Change",
    "DiffKind",
    "Difference",
    "MergeConflictError",
    "MetaRangeWriter",
    "RangeReader",
    "RangeStore",
    "Strategy",
    "apply",
    "commit_id",
    "compare",
    "diff",
    "merge",
]
