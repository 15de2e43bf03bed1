"""Ranges of names that tile a folder exactly. A range needs only the live ids that fall into it.

ids      20 characters of base32; the first ones are the first bits of the number
bounds   one or two characters, low inclusive, high exclusive; "" is open
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dredge.icechunk.collection.sets import Ids
from dredge.icechunk.ids import ALPHABET
from dredge.storage import ObjectReader

_BITS_PER_CHAR = 5
_ID_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRange:
    """Names in a folder.

    Attributes:
        prefix: the folder, with its slash.
        low: first name, inclusive; "" is open.
        high: exclusive; "" is open.
    """

    prefix: str
    low: str
    high: str

    def list(self, reader: ObjectReader) -> Iterator[pa.RecordBatch]:
        """List the range."""
        # Both bounds of a listing are exclusive. A name that equals a bound is too short for an id, so the range
        # above may leave it out; the zero byte lets the range below have it, so that foreign names are counted once.
        yield from reader.list(
            self.prefix,
            start_after=self.prefix + self.low if self.low else "",
            stop_before=self.prefix + self.high + "\0" if self.high else "",
        )

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the largest 64-bit number that an id in the range can have."""
        low = _number(self.low) if self.low else 0
        high = _number(self.high) - 1 if self.high else (1 << _ID_BITS) - 1
        return low, high

    def shards(self, bits: int) -> range:
        """Numbers of the shards that the range reaches into, where sets are split by so many first bits."""
        low, high = self.numbers
        return range(low >> (_ID_BITS - bits), (high >> (_ID_BITS - bits)) + 1)

    def part_of(self, ids: Ids) -> Ids:
        """Give those of a sorted set of ids that fall into the range."""
        low, high = self.numbers
        start = int(np.searchsorted(ids, np.uint64(low)))
        stop = int(np.searchsorted(ids, np.uint64(high), side="right"))
        return ids[start:stop]


def bounds_for(expected: int, keys_per_task: int, is_remote: bool) -> list[str]:
    """Choose the bounds between the ranges of a folder; the first and the last range are open.

    Args:
        expected: names in it.
        keys_per_task: names that one task should list.
        is_remote: a local folder is read whole whatever the range, so splitting it only costs.
    """
    if expected <= keys_per_task or not is_remote:
        return ["", ""]
    if expected <= keys_per_task * len(ALPHABET):
        return ["", *ALPHABET[1:], ""]
    return ["", *sorted(first + second for first in ALPHABET for second in ALPHABET)[1:], ""]


def _number(prefix: str) -> int:
    value = 0
    for char in prefix:
        value = value << _BITS_PER_CHAR | ALPHABET.index(char)
    return value << (_ID_BITS - _BITS_PER_CHAR * len(prefix))
