"""Sets of 64-bit hashes, as sorted arrays of distinct values.

    file of hashes: n values of eight bytes, little endian, sorted and distinct
    file of counts: the same, then n signed counts of four bytes

Equal hashes mean "perhaps the same": a collision keeps garbage and never deletes a live object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from dredge.errors import FormatError
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo

# Sorted and distinct, unless stated otherwise.
type Hashes = npt.NDArray[np.uint64]

NONE: Hashes = np.empty(0, np.uint64)
GATHERED_MAX = 4 << 20
_FIRST_BITS = 22


def to_bytes(hashes: Hashes) -> bytes:
    """Encode sorted distinct hashes as a file."""
    return hashes.astype("<u8", copy=False).tobytes()


def from_bytes(data: bytes, name: str) -> Hashes:
    """Parse a file of hashes."""
    if len(data) % 8:
        raise FormatError(
            f"{name}: the file is damaged: its length, {len(data)} bytes, is not a multiple of 8. Start a new run."
        )
    hashes = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    if len(hashes) > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise FormatError(f"{name}: the file is damaged, its hashes are not sorted. Start a new run.")
    return hashes


def unite(pieces: Sequence[Hashes]) -> Hashes:
    """Merge arrays of hashes, each in any order and with repetitions, into one sorted distinct array."""
    if not pieces:
        return NONE
    if len(pieces) == 1:
        if (pieces[0][1:] > pieces[0][:-1]).all():
            return pieces[0]
        values = np.sort(pieces[0])
    else:
        # Pieces are usually sorted each, and a stable sort merges sorted runs.
        values = np.concatenate(pieces)
        values.sort(kind="stable")
    distinct = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=distinct[1:])
    return values if distinct.all() else values[distinct]


def unite_all(pieces: Iterable[Hashes]) -> Hashes:
    """Merge many overlapping sets, in about twice the memory of the result."""
    waiting: list[Hashes] = []
    united = size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size > 2 * united + GATHERED_MAX:
            waiting = [unite(waiting)]
            united = size = len(waiting[0])
    return unite(waiting)


def locate(hashes: Hashes, wanted: Hashes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Look up hashes, in any order, in a sorted distinct set; returns whether each is in the set, and its index (0 for
    a missing hash)."""
    if not len(hashes):
        return np.zeros(len(wanted), bool), np.zeros(len(wanted), np.int64)
    places = np.searchsorted(hashes, wanted)
    places[places == len(hashes)] = 0
    return hashes[places] == wanted, places


def contains(hashes: Hashes, wanted: Hashes) -> npt.NDArray[np.bool_]:
    """Return for each wanted hash, in any order, whether a sorted distinct set has it."""
    if len(wanted) < 1 << _FIRST_BITS - 2 or len(hashes) > 1 << _FIRST_BITS - 2:
        return locate(hashes, wanted)[0]
    # A search costs four times as much as a comparison of the first bits, which excludes most hashes.
    first = np.uint64(64 - _FIRST_BITS)
    has_first = np.zeros(1 << _FIRST_BITS, bool)
    has_first[hashes >> first] = True
    likely = np.flatnonzero(has_first[wanted >> first])
    found = np.zeros(len(wanted), bool)
    found[likely] = locate(hashes, wanted[likely])[0]
    return found


def shard_of(hashes: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """Return the shard of each hash, of 2**bits shards: its first bits, so a shard is a slice of a sorted set."""
    if bits == 0:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)


def split(hashes: Hashes, bits: int) -> list[Hashes]:
    """Split sorted hashes into 2**bits shards; shards may be empty."""
    return list(np.split(hashes, _bounds(hashes, bits)))


def _bounds(hashes: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """The index of the second and each later shard in sorted hashes."""
    firsts = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits if bits else 0)
    return np.searchsorted(hashes, firsts)


type Counts = npt.NDArray[np.int32]

_NO_COUNTS: Counts = np.empty(0, np.int32)


class Counted(Struct, frozen=True):
    """Hashes of addresses, each with a reference count: the number of active ranges with the address."""

    hashes: Hashes = field(default_factory=lambda: NONE)
    # of each hash, never 0; negative for more subtractions than additions
    counts: Counts = field(default_factory=lambda: _NO_COUNTS)

    @classmethod
    def of(cls, pieces: Sequence[Hashes], sign: int = 1) -> Counted:
        """Count for each hash how many of the sorted distinct sets have it; sign 1 adds, -1 subtracts."""
        if not pieces:
            return cls()
        values = np.concatenate(pieces)
        values.sort(kind="stable" if len(pieces) > 1 else None)
        starts = _starts(values)
        counts = np.diff(np.append(starts, len(values))).astype(np.int32) * np.int32(sign)
        return cls(values[starts], counts)

    @classmethod
    def sum(cls, pieces: Sequence[Counted]) -> Counted:
        """Add up counts; hashes with sum 0 are omitted."""
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
        places = _bounds(self.hashes, bits)
        halves = zip(np.split(self.hashes, places), np.split(self.counts, places), strict=True)
        return [Counted(hashes, counts) for hashes, counts in halves]

    def of_each(self, wanted: Hashes) -> npt.NDArray[np.int64]:
        """Return the count of each wanted hash; 0 for a missing hash."""
        if not len(self.hashes):
            return np.zeros(len(wanted), np.int64)
        found, places = locate(self.hashes, wanted)
        return np.where(found, self.counts[places], 0).astype(np.int64)


def counted_to_bytes(counted: Counted) -> bytes:
    """Encode hashes with counts as a file."""
    return counted.hashes.astype("<u8", copy=False).tobytes() + counted.counts.astype("<i4").tobytes()


def counted_from_bytes(data: bytes, rows: int, name: str) -> Counted:
    """Parse a file of hashes with counts."""
    if len(data) != rows * 12:
        raise FormatError(f"{name}: damaged: {len(data)} bytes are not {rows} hashes with counts.")
    hashes = np.frombuffer(data, "<u8", rows).astype(np.uint64, copy=False)
    if rows > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise FormatError(f"{name}: the hashes are not sorted.")
    return Counted(hashes, np.frombuffer(data, "<i4", rows, rows * 8).astype(np.int32, copy=False))


def _starts(values: Hashes) -> npt.NDArray[np.int64]:
    """The first index of each run of equal values in a sorted array."""
    if not len(values):
        return np.empty(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])


def write_hashes(folder: RunFolder, name: str, hashes: Hashes) -> PartInfo:
    """Write a set as a part; by convention the part's name ends in `.u64`."""
    return folder.write_bytes(name, to_bytes(hashes), len(hashes))


def read_hashes(folder: RunFolder, part: PartInfo) -> Hashes:
    """Read a set; raises FormatError when the file differs from the written one."""
    hashes = from_bytes(folder.read_bytes(part), part.name)
    if len(hashes) != part.rows:
        raise FormatError(f"{part.name}: has {len(hashes)} hashes instead of {part.rows}. Start a new run.")
    return hashes


def write_counted(folder: RunFolder, name: str, counted: Counted) -> PartInfo:
    """Write hashes with their counts as a part; by convention the part's name ends in `.counts`."""
    return folder.write_bytes(name, counted_to_bytes(counted), len(counted.hashes))


def read_counted(folder: RunFolder, part: PartInfo) -> Counted:
    """Read hashes with their counts; raises FormatError when the file differs from the written one."""
    return counted_from_bytes(folder.read_bytes(part), part.rows, part.name)
