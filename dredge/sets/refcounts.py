"""Reference counts: how many active ranges name each address, so that dropped ranges can be subtracted again.

file: n hashes of eight bytes, sorted and distinct, then n signed counts of four bytes, little endian
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError
from dredge.sets.hashes import NONE, Hashes

type Counts = npt.NDArray[np.int32]

_NO_COUNTS: Counts = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Counted:
    """Hashes, each with a count.

    Attributes:
        hashes: sorted and distinct.
        counts: of each hash, never 0; negative where more was subtracted than added.
    """

    hashes: Hashes = field(default_factory=lambda: NONE)
    counts: Counts = field(default_factory=lambda: _NO_COUNTS)

    @classmethod
    def of(cls, pieces: Sequence[Hashes], sign: int = 1) -> Counted:
        """Count in how many sets each hash is.

        Args:
            pieces: sets, each sorted and distinct.
            sign: 1 to add, -1 to subtract.
        """
        if not pieces:
            return cls()
        values = np.concatenate(pieces)
        values.sort(kind="stable" if len(pieces) > 1 else None)
        starts = _starts(values)
        counts = np.diff(np.append(starts, len(values))).astype(np.int32) * np.int32(sign)
        return cls(values[starts], counts)

    @classmethod
    def sum(cls, pieces: Sequence[Counted]) -> Counted:
        """Add counts up; hashes whose sum is 0 are left out."""
        pieces = [piece for piece in pieces if len(piece.hashes)]
        if len(pieces) < 2:
            return pieces[0] if pieces else cls()
        values = np.concatenate([piece.hashes for piece in pieces])
        order = np.argsort(values, kind="stable")
        values = values[order]
        starts = _starts(values)
        counts = np.add.reduceat(np.concatenate([piece.counts for piece in pieces])[order], starts)
        left = counts != 0
        return cls(values[starts][left], counts[left].astype(np.int32))

    def split(self, bits: int) -> list[Counted]:
        """Split into 2**bits shards by the first bits of the hash."""
        if bits == 0:
            return [self]
        bounds = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
        places = np.searchsorted(self.hashes, bounds)
        halves = zip(np.split(self.hashes, places), np.split(self.counts, places), strict=True)
        return [Counted(hashes, counts) for hashes, counts in halves]

    def of_each(self, wanted: Hashes) -> npt.NDArray[np.int64]:
        """The count of each wanted hash; 0 where there is none."""
        if not len(self.hashes):
            return np.zeros(len(wanted), np.int64)
        places = np.searchsorted(self.hashes, wanted)
        places[places == len(self.hashes)] = 0
        return np.where(self.hashes[places] == wanted, self.counts[places], 0).astype(np.int64)


def to_bytes(counted: Counted) -> bytes:
    """The bytes of a file of hashes with counts."""
    return counted.hashes.astype("<u8", copy=False).tobytes() + counted.counts.astype("<i4").tobytes()


def from_bytes(data: bytes, rows: int, name: str) -> Counted:
    """Interpret the bytes of a file as hashes with counts.

    Args:
        data: content of the file.
        rows: how many hashes were written.
        name: what to call it in errors.

    Raises:
        FormatError: not as it was written.
    """
    if len(data) != rows * 12:
        raise FormatError(f"{name}: {len(data)} bytes are not {rows} hashes with counts.")
    hashes = np.frombuffer(data, "<u8", rows).astype(np.uint64, copy=False)
    if rows > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise FormatError(f"{name}: the hashes are not sorted.")
    return Counted(hashes, np.frombuffer(data, "<i4", rows, rows * 8).astype(np.int32, copy=False))


def _starts(values: Hashes) -> npt.NDArray[np.int64]:
    """Where each run of equal values begins in sorted ones."""
    if not len(values):
        return np.empty(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
