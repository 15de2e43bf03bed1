"""Ranges and metaranges in a storage namespace: `_lakefs/<id>`, written once, never changed or removed."""

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files.ranges import RangeInfo, Value, is_table_id, read_metarange
from dredge.lakefs.files.sstable import RANGES, SeekableTable, read_table
from dredge.storage import ObjectReader, ObjectWriter
from lakefs_embedded.committed.tables import WrittenTable

FOLDER = "_lakefs/"
_CACHE_SIZE = 64 << 20
_OBJECTS = 82  # bytes of two objects and their places in lists


@dataclass(frozen=True, slots=True)
class MetaRange:
    """The ranges of a commit."""

    id: str  # 64 hex digits, or empty for the content of a repository's first commit, which has no file
    ranges: tuple[RangeInfo, ...]  # sorted by key, disjoint


EMPTY = MetaRange("", ())


def position_of(metarange: MetaRange, key: bytes) -> int:
    """Return the index of the first range whose last key is >= a key."""
    return bisect_left(metarange.ranges, key, key=lambda item: item.max_key)


class Records:
    """The records of one range, values still encoded."""

    __slots__ = ("keys", "name", "raw", "size")

    def __init__(self, name: str, keys: list[bytes], raw: list[bytes], size: int) -> None:
        self.name = name
        self.keys = keys
        self.raw = raw
        self.size = size

    def value(self, position: int) -> Value:
        """The value of the record at a position."""
        return Value.decode(self.raw[position], f"{self.name}, record {position}")


class _Cache[T]:
    """The most recently used items, up to a total size in bytes."""

    def __init__(self, size_max: int) -> None:
        self._items: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._size = 0
        self._size_max = size_max
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            if key not in self._items:
                return None
            self._items.move_to_end(key)
            return self._items[key][0]

    def put(self, key: str, item: T, size: int) -> None:
        with self._lock:
            if key in self._items:
                return
            self._items[key] = (item, size)
            self._size += size
            while self._size > self._size_max and len(self._items) > 1:
                self._size -= self._items.popitem(last=False)[1][1]


class RangeReader:
    """Reads the committed content of one storage namespace. Safe for use from many threads."""

    def __init__(self, reader: ObjectReader, cache_size: int = _CACHE_SIZE) -> None:
        self._reader = reader
        self._ranges: _Cache[Records] = _Cache(cache_size)
        self._tables: _Cache[SeekableTable] = _Cache(cache_size // 4)
        self._metaranges: _Cache[MetaRange] = _Cache(cache_size // 8)

    def get_metarange(self, metarange_id: str) -> MetaRange:
        """Read a metarange; the empty id is the empty content. Raises FormatError for a damaged file."""
        if not metarange_id:
            return EMPTY
        if (known := self._metaranges.get(metarange_id)) is not None:
            return known
        data = self._get(metarange_id)
        ranges = read_metarange(data, self.name_of(metarange_id), expected_id=metarange_id)
        metarange = MetaRange(metarange_id, tuple(ranges))
        self._metaranges.put(metarange_id, metarange, len(data))
        return metarange

    def get_range(self, info: RangeInfo) -> Records:
        """Read and check the records of a range. Raises FormatError for a damaged file."""
        records = self._ranges.get(info.id)
        if records is None:
            name = self.name_of(info.id)
            data = self._get(info.id)
            table = read_table(data, name, kind=RANGES, expected_id=info.id)
            keys = [record.key for record in table.records]
            values = [record.value for record in table.records]
            size = sum(map(len, keys)) + sum(map(len, values)) + _OBJECTS * len(keys)
            records = Records(name, keys, values, size)
            self._ranges.put(info.id, records, records.size)
        _check(records.name, len(records.keys), records.keys[-1] if records.keys else b"", info)
        return records

    def _seek(self, info: RangeInfo, start: bytes) -> Iterator[tuple[bytes, Value]]:
        if (known := self._ranges.get(info.id)) is not None:
            for at in range(bisect_left(known.keys, start), len(known.keys)):
                yield known.keys[at], known.value(at)
            return
        name, table = self.name_of(info.id), self._tables.get(info.id)
        if table is None:
            table = SeekableTable(self._get(info.id), name, RANGES)
            self._tables.put(info.id, table, table.size)
        _check(name, table.count, table.max_key, info)
        for key, raw in table.records(start):
            yield key, Value.decode(raw, f"{name}, record {key!r}")

    def get_entry(self, metarange_id: str, path: bytes) -> Value | None:
        """The value of a path; None if missing."""
        metarange = self.get_metarange(metarange_id)
        position = position_of(metarange, path)
        if position == len(metarange.ranges):
            return None
        found = next(self._seek(metarange.ranges[position], path), None)
        return found[1] if found is not None and found[0] == path else None

    def list_entries(self, metarange_id: str, start: bytes = b"") -> Iterator[tuple[bytes, Value]]:
        """All paths with their values, in byte order of the paths."""
        metarange = self.get_metarange(metarange_id)
        for info in metarange.ranges[position_of(metarange, start) :]:
            if start:
                yield from self._seek(info, start)
            else:
                records = self.get_range(info)
                yield from ((key, records.value(at)) for at, key in enumerate(records.keys))

    def name_of(self, table_id: str) -> str:
        """The name of a file in error messages."""
        return f"{self._reader.uri}/{FOLDER}{table_id}"

    def _get(self, table_id: str) -> bytes:
        if not is_table_id(table_id):
            raise FormatError(f"{table_id!r} is not the id of a range or metarange")
        return self._reader.get(FOLDER + table_id)


def _check(name: str, count: int, last: bytes, info: RangeInfo) -> None:
    if count != info.count or last != info.max_key:
        raise FormatError(
            f"{name}: {count} records up to {last!r}; its metarange says {info.count} up to {info.max_key!r}"
        )


class RangeStore(RangeReader):
    """Reads and writes the committed content of one storage namespace."""

    def __init__(self, writer: ObjectWriter, cache_size: int = _CACHE_SIZE) -> None:
        super().__init__(writer, cache_size)
        self._writer = writer

    def put(self, table: WrittenTable) -> None:
        """Write a range or metarange under its id. Writing it again changes nothing."""
        self._writer.put(FOLDER + table.id, table.data)


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
