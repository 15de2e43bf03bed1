"""Writes the content of a commit: records into ranges, ranges into a metarange."""

from __future__ import annotations

from dredge.errors import FormatError
from dredge.lakefs.files.entries import Value
from dredge.lakefs.files.ranges import SERVER_RULE, MetaRange, RangeInfo, SplitRule, write_metarange
from dredge.lakefs.files.sstable import RANGES, TableWriter
from lakefs_embedded.committed.store import RangeStore


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
            self._ranges.append(RangeInfo.of(table))
            self._open = None
