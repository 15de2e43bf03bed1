"""Writes the content of a commit: records into ranges, ranges into a metarange."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files.ranges import MetaRange, RangeInfo, Value
from dredge.lakefs.files.sstable import METARANGES, RANGES
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.committed.tables import TableWriter, WrittenTable, write_table

_FNV_START = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SplitRule:
    """When a range is closed after a key.

    Attributes:
        min_size: estimated bytes below which a range is never closed.
        max_size: estimated bytes from which on it is always closed.
        raggedness: between the two, a key in this many closes the range. The key's hash decides, so equal
            keys make equal ranges independent of earlier writes.

    Source: lakeFS configuration committed.permanent.*
    """

    min_size: int = 0
    max_size: int = 20 << 20
    raggedness: int = 50_000

    def closes_after(self, key: bytes, estimated_size: int) -> bool:
        """Whether a range of this size ends with this key."""
        if estimated_size < self.min_size:
            return False
        return estimated_size >= self.max_size or fnv1a_64(key) % self.raggedness == 0


SERVER_RULE = SplitRule()


class MetaRangeWriter:
    """Takes records and whole ranges in key order, and writes each range as soon as it is full.

    The metarange is written last: after a crash the ranges are unreferenced.
    """

    def __init__(self, store: RangeStore, rule: SplitRule = SERVER_RULE) -> None:
        self._store = store
        self._rule = rule
        self._open: TableWriter | None = None
        self._ranges: list[RangeInfo] = []
        self._last: bytes | None = None

    def add(self, key: bytes, value: Value) -> None:
        """Append a record. Raises ValueError unless the key is the greatest."""
        self.add_encoded(key, value.encode())

    def add_encoded(self, key: bytes, raw: bytes) -> None:
        """Append an encoded record. Raises ValueError unless the key is the greatest."""
        if self._last is not None and key <= self._last:
            raise ValueError(f"key {key!r} does not come after {self._last!r}")
        if self._open is None:
            self._open = TableWriter(RANGES)
        self._open.add(key, raw)
        self._last = key
        if self._rule.closes_after(key, self._open.estimated_size()):
            self._close_range()

    def add_range(self, info: RangeInfo) -> None:
        """Append a stored range, unchanged. Raises FormatError if it overlaps an earlier one."""
        if self._last is not None and info.min_key <= self._last:
            raise FormatError(f"range {info.id} begins at {info.min_key!r}, not after {self._last!r}")
        self._close_range()
        self._ranges.append(info)
        self._last = info.max_key

    def finish(self) -> MetaRange:
        """Write the metarange. The writer cannot be used afterwards."""
        self._close_range()
        table = write_metarange(self._ranges)
        self._store.put(table)
        return MetaRange(table.id, tuple(self._ranges))

    def _close_range(self) -> None:
        if self._open is not None:
            table = self._open.finish()
            self._store.put(table)
            self._ranges.append(table.info)
            self._open = None


def write_metarange(ranges: list[RangeInfo]) -> WrittenTable:
    """Write a metarange file. `ranges`: sorted by key, disjoint. Raises ValueError if not sorted."""
    return write_table(((item.max_key, item.value().encode()) for item in ranges), METARANGES)


def fnv1a_64(key: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    state = _FNV_START
    for byte in key:
        state = ((state ^ byte) * _FNV_PRIME) & _64_BITS
    return state
