"""Metaranges: the content of a commit as a sorted list of ranges."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.sstable import METARANGES, WrittenTable, read_table, write_table


@dataclass(frozen=True, slots=True)
class MetaRange:
    """The ranges of a commit.

    Attributes:
        id: 64 hex digits, or empty for the content of a repository's first commit, which has no file.
        ranges: sorted by key, disjoint.
    """

    id: str
    ranges: tuple[RangeInfo, ...]

    @property
    def count(self) -> int:
        """Number of entries in all ranges."""
        return sum(item.count for item in self.ranges)

    def position(self, key: bytes) -> int:
        """Index of the first range whose last key is not less than a key."""
        return bisect_left(self.ranges, key, key=lambda item: item.max_key)


EMPTY = MetaRange("", ())


def read_metarange(data: bytes, name: str, expected_id: str | None = None) -> MetaRange:
    """Read a metarange file.

    Args:
        data: the file.
        name: name of the file in error messages.
        expected_id: the id that the file must have, by its content.

    Raises:
        FormatError: the file is damaged, or it is a range, a refs dump or another metarange.
    """
    table = read_table(data, name, kind=METARANGES, expected_id=expected_id)
    ranges = tuple(
        RangeInfo.decode(key, value, f"{name}, record {number}")
        for number, (key, value) in enumerate(table.records)
    )
    if len({item.id for item in ranges}) != len(ranges):
        raise FormatError(f"{name}: one range is named twice")
    return MetaRange(expected_id or table.id, ranges)


def write_metarange(ranges: list[RangeInfo]) -> WrittenTable:
    """Write a metarange file.

    Args:
        ranges: sorted by key, disjoint.

    Raises:
        ValueError: not sorted.
    """
    return write_table(((item.max_key, item.value().encode()) for item in ranges), METARANGES)
