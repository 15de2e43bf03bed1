"""How many active ranges name each address: what lets a run take dropped ranges back out of the live set.

    file: n hashes of eight bytes, sorted and distinct, then n signed counts of four bytes, little endian

A counted set lies in layers. The first is complete; each later one holds what a run added (new ranges) and
took away (dropped ranges). An address is live when its counts in all layers add up to more than nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError
from dredge.gc.sets.hashes import NONE, Hashes, shard_of
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo

type Counts = npt.NDArray[np.int32]

_NO_COUNTS: Counts = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Counted:
    """Hashes with a count each.

    Attributes:
        hashes: sorted and distinct.
        counts: as many; never zero.
    """

    hashes: Hashes = field(default_factory=lambda: NONE)
    counts: Counts = field(default_factory=lambda: _NO_COUNTS)

    @classmethod
    def of(cls, pieces: Sequence[Hashes], sign: int = 1) -> Counted:
        """Count in how many pieces each hash is; each piece names a hash once.

        Args:
            pieces: of hashes.
            sign: 1 to add, -1 to take away.
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
        """Add counts up; what adds up to nothing is left out."""
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
        """The count of each wanted hash; 0 of those it does not have."""
        if not len(self.hashes):
            return np.zeros(len(wanted), np.int64)
        places = np.searchsorted(self.hashes, wanted)
        places[places == len(self.hashes)] = 0
        return np.where(self.hashes[places] == wanted, self.counts[places], 0).astype(np.int64)


def _starts(values: Hashes) -> npt.NDArray[np.int64]:
    """Where each run of equal values begins in sorted ones."""
    if not len(values):
        return np.empty(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])


def write_counted(folder: RunFolder, name: str, counted: Counted) -> PartInfo:
    """Write hashes with their counts as a part."""
    data = counted.hashes.astype("<u8", copy=False).tobytes() + counted.counts.astype("<i4").tobytes()
    return folder.write_bytes(name, data, len(counted.hashes))


def read_counted(folder: RunFolder, part: PartInfo) -> Counted:
    """Read a part with counts.

    Raises:
        FormatError: not as it was written.
    """
    data = folder.read_bytes(part)
    rows = part.rows
    if len(data) != rows * 12:
        raise FormatError(f"{part.name}: {len(data)} bytes are not {rows} hashes with counts.")
    hashes = np.frombuffer(data, "<u8", rows).astype(np.uint64, copy=False)
    if rows > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise FormatError(f"{part.name}: the hashes are not sorted.")
    return Counted(hashes, np.frombuffer(data, "<i4", rows, rows * 8).astype(np.int32, copy=False))


@dataclass(frozen=True, slots=True)
class CountedSet:
    """A counted set in files.

    Attributes:
        bits: 2**bits shards, by the first bits of the hash.
        layers: files by shard, the complete layer first.
    """

    bits: int
    layers: tuple[dict[int, PartInfo], ...]

    @classmethod
    def of(cls, parts: Sequence[PartInfo], bits: int) -> CountedSet:
        """A set of one complete layer, from files named `…-<shard>.counts`."""
        return cls(bits, (_by_shard(parts),))

    def then(self, parts: Sequence[PartInfo]) -> CountedSet:
        """The set with one more layer."""
        return CountedSet(self.bits, (*self.layers, _by_shard(parts)))

    @property
    def parts(self) -> list[PartInfo]:
        """Every file."""
        return [part for layer in self.layers for part in layer.values()]

    def find(self, folder: RunFolder, wanted: Sequence[Hashes]) -> list[npt.NDArray[np.bool_]]:
        """Tell for each wanted hash whether any active range names it; see `counts`."""
        return [found > 0 for found in self.counts(folder, wanted)]

    def counts(self, folder: RunFolder, wanted: Sequence[Hashes]) -> list[npt.NDArray[np.int64]]:
        """Tell for each wanted hash how many active ranges name it.

        Args:
            folder: where the files are.
            wanted: any number of arrays.

        Returns:
            An array of answers for each.

        Raises:
            FormatError: a file is not as it was written, or the layers do not belong together: an address was
                taken away more often than it was there.
        """
        answers = [np.zeros(len(hashes), np.int64) for hashes in wanted]
        places = [shard_of(hashes, self.bits) for hashes in wanted]
        for shard in sorted({shard for layer in self.layers for shard in layer}):
            layers = [read_counted(folder, layer[shard]) for layer in self.layers if shard in layer]
            _check(layers, shard)
            for hashes, place, answer in zip(wanted, places, answers, strict=True):
                here = place == shard if self.bits else slice(None)
                answer[here] = sum(layer.of_each(hashes[here]) for layer in layers)
        return answers

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        layers = [[part.to_json() for part in layer.values()] for layer in self.layers]
        return {"bits": self.bits, "layers": layers}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CountedSet:
        """From the object that `to_json` made."""
        layers = [[PartInfo.from_json(part) for part in layer] for layer in value["layers"]]
        return cls(value["bits"], tuple(_by_shard(layer) for layer in layers))


def _by_shard(parts: Sequence[PartInfo]) -> dict[int, PartInfo]:
    return {int(part.name.removesuffix(".counts").rpartition("-")[2]): part for part in parts}


def _check(layers: Sequence[Counted], shard: int) -> None:
    taken = [layer.hashes[layer.counts < 0] for layer in layers]
    for hashes in taken:
        if len(hashes) and np.any(sum(layer.of_each(hashes) for layer in layers) < 0):
            raise FormatError(
                f"shard {shard} of the counted set was taken away from more often than it was added to: its"
                " layers do not belong together. Nothing was deleted. Start a clean run."
            )
