"""A position in a commit's content; skips whole ranges without reading them."""

from __future__ import annotations

from dredge.errors import FormatError
from dredge.lakefs.files.ranges import MetaRange, RangeInfo, Value
from lakefs_embedded.committed.store import RangeReader, Records


class Cursor:
    """A position before an unread range, on a record of a range, or after the last range."""

    __slots__ = ("_at", "_metarange", "_range", "_records", "_store")

    def __init__(self, store: RangeReader, metarange: MetaRange) -> None:
        self._store = store
        self._metarange = metarange
        self._range = self._at = 0
        self._records: Records | None = None

    @property
    def done(self) -> bool:
        """Whether the end is reached."""
        return self._range == len(self._metarange.ranges)

    @property
    def before_range(self) -> bool:
        """Whether the position is before an unread range."""
        return self._records is None and not self.done

    @property
    def info(self) -> RangeInfo:
        """The range before or around the position."""
        return self._metarange.ranges[self._range]

    @property
    def key(self) -> bytes:
        """The next key: the record's, or the range's first."""
        return self.info.min_key if self._records is None else self._records.keys[self._at]

    @property
    def raw(self) -> bytes:
        """The record's value, encoded."""
        return self._inside().raw[self._at]

    @property
    def value(self) -> Value:
        """The record's value."""
        return self._inside().value(self._at)

    def enter(self) -> None:
        """Step from before a range onto its first record. Raises FormatError for a damaged range."""
        records = self._store.get_range(self.info)
        if records.keys[0] != self.info.min_key:
            raise FormatError(f"{records.name}: begins at {records.keys[0]!r}, not at {self.info.min_key!r}")
        self._records, self._at = records, 0

    def skip_range(self) -> None:
        """Step from before a range to before the next."""
        self._range += 1
        self._records = None

    def next(self) -> None:
        """Step from a record to the next, or before the next range."""
        self._at += 1
        if self._at == len(self._inside().keys):
            self.skip_range()

    def _inside(self) -> Records:
        if self._records is None:
            raise ValueError("the cursor is not on a record")
        return self._records
