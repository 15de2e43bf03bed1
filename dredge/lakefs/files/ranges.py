"""The values of records in tables, and the ranges of a metarange."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files import messages
from dredge.lakefs.files.sstable import METARANGES, read_table
from dredge.lakefs.files.sstable.layout import get_uvarint

PART_SIZE_MAX = 640 << 16


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a table's record: an identity, and data.

        svarint(length of identity) · identity · svarint(length of data) · data     (the rest is ignored)

    The lengths are zig-zag numbers: 32 is the byte 40, 64 the bytes 80 01. Identity is 32 raw bytes in a range, and the
    range's id as 64 ASCII characters in a metarange. Source: lakeFS pkg/graveler/committed/value.go"""

    identity: bytes  # equal for equal content, whatever the address and time
    data: bytes  # an encoded entry, or an encoded RangeData

    @classmethod
    def decode(cls, raw: bytes, name: str) -> Value:
        """Decode the value of a table's record."""
        try:
            identity, at = _part(raw, 0)
            data, _ = _part(raw, at)
        except ValueError as error:
            raise FormatError(f"{name}: value {raw[:40].hex()}: {error}") from error
        return cls(identity, data)


def _part(raw: bytes, at: int) -> tuple[bytes, int]:
    zigzag, at = get_uvarint(raw, at, len(raw))
    length = zigzag >> 1
    if zigzag & 1 or length > PART_SIZE_MAX or at + length > len(raw):
        raise ValueError(f"identity or data has an impossible length in a value of {len(raw)} bytes")
    return raw[at : at + length], at + length


_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """A range of a metarange."""

    id: str  # 64 hex digits; the file is `_lakefs/<id>`
    min_key: bytes  # its first key; not reliable in files of old servers
    max_key: bytes  # its last key; ranges are sorted by it
    estimated_size: int
    count: int

    @classmethod
    def decode(cls, key: bytes, raw: bytes, name: str) -> RangeInfo:
        """Decode a record of a metarange."""
        value = Value.decode(raw, name)
        data = messages.decode(messages.RangeData, value.data, name)
        range_id = value.identity.decode("ascii", errors="replace")
        if not is_table_id(range_id):
            raise FormatError(f"{name}: {value.identity!r} is not the id of a range")
        if data.max_key != key:
            raise FormatError(f"{name}: a range's largest key {data.max_key!r} differs from its record's key")
        if data.count < 1:
            raise FormatError(f"{name}: a range of {data.count} records")
        return cls(range_id, data.min_key, data.max_key, data.estimated_size, data.count)


def is_table_id(text: str) -> bool:
    """Return whether a string has the form of an id of a range or metarange."""
    return len(text) == 64 and _HEX.issuperset(text)


@dataclass(frozen=True, slots=True)
class MetaRange:
    """The ranges of a commit."""

    id: str  # 64 hex digits, or empty for the content of a repository's first commit, which has no file
    ranges: tuple[RangeInfo, ...]  # sorted by key, disjoint


def read_metarange(data: bytes, name: str, expected_id: str | None = None) -> MetaRange:
    """Read a metarange file."""
    table = read_table(data, name, kind=METARANGES, expected_id=expected_id)
    ranges = tuple(
        RangeInfo.decode(key, value, f"{name}, record {number}")
        for number, (key, value) in enumerate(table.records)
    )
    if len({item.id for item in ranges}) != len(ranges):
        raise FormatError(f"{name}: lists a range twice")
    return MetaRange(expected_id or table.id, ranges)
