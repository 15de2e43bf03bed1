"""The committed content of a repository: entries in ranges, ranges in metaranges, metaranges in commits."""

from __future__ import annotations

from dredge.graveler.addresses import AddressType
from dredge.graveler.committed.apply import Applied, Change, apply
from dredge.graveler.committed.commits import commit_id
from dredge.graveler.committed.diff import Difference, DiffKind, compare, diff
from dredge.graveler.committed.entries import Entry
from dredge.graveler.committed.merge import MergeConflictError, Strategy, merge
from dredge.graveler.committed.metaranges import MetaRange, read_metarange, write_metarange
from dredge.graveler.committed.ranges import RangeInfo, SplitRule
from dredge.graveler.committed.store import RangeReader, RangeStore
from dredge.graveler.committed.values import Value
from dredge.graveler.committed.writing import MetaRangeWriter

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
