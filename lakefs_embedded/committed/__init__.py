"""The committed content of a repository: read, compared, changed, merged and written."""

from __future__ import annotations

from lakefs_embedded.committed.apply import Applied, Change, apply
from lakefs_embedded.committed.commits import commit_id
from lakefs_embedded.committed.diff import Difference, DiffKind, compare, diff
from lakefs_embedded.committed.merge import MergeConflictError, Strategy, merge
from lakefs_embedded.committed.store import RangeReader, RangeStore
from lakefs_embedded.committed.writing import MetaRangeWriter

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
