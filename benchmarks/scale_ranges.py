"""Made-up range files: as a server writes them, filled in from a pattern when they are read.

A range has the committed objects of one slice, so in all ranges keys and values have the same lengths, and the same
records are in the same block. One range is written record by record, and its blocks before their compression are the
pattern; another range has other digits in its keys, and other values.

    _lakefs/<id>     on disk: "made-up range <number> <version>"; the id is the true one, the hash of all records

Version 0 of a range has all records, each later one lacks another record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from benchmarks.scale_objects import (
    PER_SLICE,
    Bytes,
    Numbers,
    Virtual,
    etags,
    identities,
    names,
    sizes,
    strings,
)
from dredge.lakefs.files.ident import string_map
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.sstable import RANGES
from dredge.lakefs.files.sstable.layout import KEY_TRAILER_SIZE
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.tables import TableWriter, put_value, shared_prefix

MARK = b"made-up range "
_PATH = "warehouse/table={:03d}/part-{:09d}.parquet"
# In a path: digits that are the same in a whole range, and the digit that is 0 to 4 in one range, 5 to 9 in the next.
_OF_RANGE, _HALF, _LAST = (16, 17, 18, 25, 26, 27, 28), 29, 33
_HEADER = 4  # bytes before the key in a block


def is_garbage(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Return the mask of unreferenced objects: one in 20."""
    return np.equal(numbers % 20, 7)


def is_staged(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Return the mask of objects in staging only: one in 100."""
    return np.equal(numbers % 100, 3)


def path_of(number: int) -> str:
    """Return the path of an object."""
    return _PATH.format(number // 1_000_000, number)


def entries(virtual: Virtual, numbers: Numbers) -> Iterator[Entry]:
    """Yield the entries of objects."""
    tags = strings("", etags(numbers)).to_pylist()
    for address, size, etag in zip(virtual.addresses(numbers), sizes(numbers).tolist(), tags, strict=True):
        yield Entry(address, size=size, etag=etag, last_modified=virtual.modified(0))


def describe(virtual: Virtual, number: int, versions: int) -> list[RangeInfo]:
    """Return the versions of a range as a metarange has them."""
    paths, values = _paths(number), _values(virtual, number)
    marks = (b"%d" % paths.shape[1], b"|%d" % values.shape[1], b"|")
    first, second, end = (np.tile(np.frombuffer(mark, np.uint8), (len(paths), 1)) for mark in marks)
    records = np.concatenate((first, paths, second, values, end), 1)
    found = []
    for version in range(versions):
        mine, keys = _without(records, version), _without(paths, version)
        digest = hashlib.sha256(np.ascontiguousarray(mine))
        digest.update(string_map({"type": RANGES}))
        ends = keys[0].tobytes(), keys[-1].tobytes()
        found.append(RangeInfo(digest.hexdigest(), *ends, estimated_size=mine.size, count=len(mine)))
    return found


def make(virtual: Virtual, mark: bytes) -> bytes:
    """Return the file of a range by its mark on disk."""
    number, version = _parse(mark)
    return _pattern(virtual, version).fill(virtual, number)


def records(virtual: Virtual, mark: bytes) -> tuple[Bytes, Bytes]:
    """Return keys and values of a range by its mark on disk."""
    return _records(virtual, *_parse(mark))


def _parse(mark: bytes) -> tuple[int, int]:
    number, version = map(int, mark.removeprefix(MARK).split())
    return number, version


def _records(virtual: Virtual, number: int, version: int) -> tuple[Bytes, Bytes]:
    return _without(_paths(number), version), _without(_values(virtual, number), version)


def _committed(number: int) -> Numbers:
    found = np.arange(number * PER_SLICE, (number + 1) * PER_SLICE)
    return found[~(is_garbage(found) | is_staged(found))]


def _paths(number: int) -> Bytes:
    numbers = _committed(number)
    rows = np.tile(np.frombuffer(path_of(int(numbers[0])).encode(), np.uint8), (len(numbers), 1))
    for place in range(5):
        rows[:, _LAST - place] = numbers // 10**place % 10 + ord("0")
    return rows


def _values(virtual: Virtual, number: int) -> Bytes:
    """Return the values of all records of a range, a row each."""
    numbers = _committed(number)
    [entry] = entries(virtual, numbers[:1])
    raw = put_value(entry.value())
    name, size = names(numbers), sizes(numbers)
    end = raw.index(entry.address.encode()) + len(entry.address)
    columns = {
        1: identities(numbers),
        end - name.shape[1]: name,
        raw.index(_uvarints(size[:1]).tobytes(), end): _uvarints(size),
        raw.index(entry.etag.encode(), end): etags(numbers),
    }
    rows = np.tile(np.frombuffer(raw, np.uint8), (len(numbers), 1))
    for at, column in columns.items():
        rows[:, at : at + column.shape[1]] = column
    return rows


def _uvarints(found: Numbers) -> Bytes:
    """Encode numbers of 22 to 28 bits."""
    parts = [found & 0x7F | 0x80, found >> 7 & 0x7F | 0x80, found >> 14 & 0x7F | 0x80, found >> 21]
    return np.stack(parts, 1).astype(np.uint8)


def _without(rows: Bytes, version: int) -> Bytes:
    return np.delete(rows, version * 997 % len(rows), 0) if version else rows


@dataclass
class _Pattern:
    """The blocks of a version of the first range before their compression.

    Attributes:
        places: of values in `body`.
        digits: by position in a path, its places in `body`.
        ends: of blocks in `body`, and of their records.
    """

    version: int
    body: Bytes
    places: Numbers
    digits: dict[int, Numbers]
    ends: list[tuple[int, int]]

    def fill(self, virtual: Virtual, number: int) -> bytes:
        """Return the file of another range."""
        keys, rows = _records(virtual, number, self.version)
        body, text = self.body.copy(), path_of(number * PER_SLICE).encode()
        for at in _OF_RANGE:
            body[self.digits[at]] = text[at]
        body[self.digits[_HALF]] += 5 * (number % 2)
        np.lib.stride_tricks.sliding_window_view(body, rows.shape[1], writeable=True)[self.places] = rows
        writer = _Filled()
        for (first, _), (end, rows_end) in pairwise([(0, 0), *self.ends]):
            following = keys[rows_end].tobytes() if rows_end < len(keys) else None
            writer.add_block(body[first:end].tobytes(), keys[rows_end - 1].tobytes(), following)
        writer.min_key, writer.count = keys[0].tobytes(), len(keys)
        writer.note_sizes(len(keys) * (keys.shape[1] + KEY_TRAILER_SIZE), rows.size)
        return writer.finish().data


@lru_cache(maxsize=8)
def _pattern(virtual: Virtual, version: int) -> _Pattern:
    writer, keys = _Recorder(), _without(_paths(0), version)
    for key, value in zip(keys, _without(_values(virtual, 0), version), strict=True):
        writer.add(key.tobytes(), value.tobytes())
    writer.finish()
    places, shared = np.array(writer.places), np.array(writer.shared)
    begins = places - keys.shape[1] - KEY_TRAILER_SIZE
    digits = {at: begins[shared <= at] + at for at in (*_OF_RANGE, _HALF)}
    body = np.frombuffer(b"".join(writer.blocks), np.uint8)
    return _Pattern(version, body, places, digits, writer.ends)


class _Recorder(TableWriter):
    """Remembers blocks before their compression, and the places of values in them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[bytes] = []
        self.ends: list[tuple[int, int]] = []
        self.places: list[int] = []
        self.shared: list[int] = []  # the first bytes of a key that it shares with the key before
        self._begin = 0

    def add(self, key: bytes, value: bytes) -> None:
        before = self.max_key
        super().add(key, value)
        body, restart = self._block.body, self._block.restarts[-1]
        self.places.append(self._begin + len(body) - len(value))
        is_whole = len(body) - restart == _HEADER + len(key) + KEY_TRAILER_SIZE + len(value)
        self.shared.append(0 if is_whole else shared_prefix(before, key))

    def _flush_block(self, next_key: bytes | None) -> None:
        if self._block.entries:
            self.blocks.append(self._block.finish())
            self._begin += len(self.blocks[-1])
            self.ends.append((self._begin, self.count))
        super()._flush_block(next_key)


class _Filled(TableWriter):
    """Takes finished blocks instead of records."""

    def add_block(self, body: bytes, last: bytes, following: bytes | None) -> None:
        """Append a block with its last key, and the key after it."""
        self._block, self.max_key, self.count = cast("Any", _Block(body)), last, 1
        self._flush_block(following)

    def note_sizes(self, keys: int, values: int) -> None:
        """Set the sizes of all keys and values."""
        self._key_bytes, self._value_bytes = keys, values


class _Block:
    """A finished block in place of one under construction."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.entries = 1

    def finish(self) -> bytes:
        return self._body

    def clear(self) -> None:
        self._body, self.entries = b"", 0

    def size(self) -> int:
        return len(self._body)
