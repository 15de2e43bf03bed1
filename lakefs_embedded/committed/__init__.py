"""The committed content of a repository: entries in ranges, ranges in metaranges, metaranges in commits."""

from __future__ import annotations

from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.entries import Entry
from dredge.lakefs.files.metaranges import MetaRange, read_metarange, write_metarange
from dredge.lakefs.files.ranges import RangeInfo, SplitRule
from dredge.lakefs.files.values import Value
from lakefs_embedded.committed.apply import Applied, Change, apply
from lakefs_embedded.committed.commits import commit_id
from lakefs_embedded.committed.diff import Difference, DiffKind, compare, diff
from lakefs_embedded.committed.merge import MergeConflictError, Strategy, merge
from lakefs_embedded.committed.store import RangeReader, RangeStore
from lakefs_embedded.committed.writing import MetaRangeWriter

__all__ = [
    "AddressType",
    "Applied",
    "Change",
    "DiffKind",
    "Difference",
    "Entry",
    "MergeConflictError",
    "MetaRange",
    "MetaRangeWriter",
    "RangeInfo",
    "RangeReader",
    "RangeStore",
    "SplitRule",
    "Strategy",
    "Value",
    "apply",
    "commit_id",
    "compare",
    "diff",
    "merge",
    "read_metarange",
    "write_metarange",
]
