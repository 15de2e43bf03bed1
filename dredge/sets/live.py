"""Sharded sets of hashes in files, and live sets made of several of them.

A look-up holds one shard in memory at a time, for any size of the set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from dredge.errors import FormatError
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.sets.hashes import Counted, Hashes, contains, read_counted, read_hashes, shard_of
from dredge.storage import open_writer


class ShardedSet(Struct, frozen=True):
    """A set of hashes in files."""

    bits: int  # for 2**bits shards, by the first bits of the hash
    shards: dict[int, PartInfo]  # file by shard; a shard without a file is empty

    @classmethod
    def of(cls, parts: Sequence[PartInfo], bits: int) -> ShardedSet:
        """Make a set from files with names `…-<shard>.u64`."""
        return cls(bits, _by_shard(parts))

    @property
    def values(self) -> int:
        """The number of hashes."""
        return sum(part.rows for part in self.shards.values())

    def find(
        self, folder: RunFolder, wanted: Sequence[Hashes], its_shards_only: bool = False
    ) -> list[npt.NDArray[np.bool_]]:
        """Return for each wanted hash whether the set has it. `its_shards_only`: skip shards without a wanted hash;
        damage there is not noticed."""
        everything = np.concatenate(wanted) if len(wanted) != 1 else wanted[0]
        answer = np.zeros(len(everything), bool)
        place = shard_of(everything, self.bits)
        for shard, part in sorted(self.shards.items()):
            here = place == shard if self.bits else slice(None)
            if not part.rows or (its_shards_only and not len(everything[here])):
                continue
            answer[here] = contains(read_hashes(folder, part), everything[here])
        return np.split(answer, np.cumsum([len(hashes) for hashes in wanted])[:-1])


class CountedSet(Struct, frozen=True):
    """Reference counts in files, in layers.

    The first layer is complete. Each later layer adds a run's new ranges and subtracts its dropped ranges. An address
    is live if its counts in all layers add up to more than 0."""

    bits: int
    layers: tuple[dict[int, PartInfo], ...]  # files by shard, the complete layer first

    @classmethod
    def of(cls, parts: Sequence[PartInfo], bits: int) -> CountedSet:
        """Make a set of one complete layer from files with names `…-<shard>.counts`."""
        return cls(bits, (_by_shard(parts),))

    def then(self, parts: Sequence[PartInfo]) -> CountedSet:
        """Return the set with one more layer."""
        return CountedSet(self.bits, (*self.layers, _by_shard(parts)))

    @property
    def parts(self) -> list[PartInfo]:
        """Every file."""
        return [part for layer in self.layers for part in layer.values()]

    def find(
        self, folder: RunFolder, wanted: Sequence[Hashes], its_shards_only: bool = False
    ) -> list[npt.NDArray[np.bool_]]:
        """Return for each wanted hash whether an active range has it; see `ShardedSet.find`. Raises FormatError: a file
        differs from the written one, or an address has more subtractions than additions."""
        answers = [np.zeros(len(hashes), bool) for hashes in wanted]
        places = [shard_of(hashes, self.bits) for hashes in wanted]
        for shard in sorted({shard for layer in self.layers for shard in layer}):
            if its_shards_only and not _any_in(places, shard):
                continue
            layers = [read_counted(folder, layer[shard]) for layer in self.layers if shard in layer]
            _check(layers, shard)
            for hashes, place, answer in zip(wanted, places, answers, strict=True):
                here = place == shard if self.bits else slice(None)
                answer[here] = sum(layer.of_each(hashes[here]) for layer in layers) > 0
        return answers


def _any_in(places: Sequence[npt.NDArray[np.int64]], shard: int) -> bool:
    return any(bool((place == shard).any()) for place in places)


def _by_shard(parts: Sequence[PartInfo]) -> dict[int, PartInfo]:
    return {_shard(part): part for part in parts}


def _shard(part: PartInfo) -> int:
    """The number at the end of a file's name: 3 for `live-0003.u64`."""
    return int(part.name.rpartition(".")[0].rpartition("-")[2])


def _check(layers: Sequence[Counted], shard: int) -> None:
    for hashes in [layer.hashes[layer.counts < 0] for layer in layers]:
        if len(hashes) and np.any(sum(layer.of_each(hashes) for layer in layers) < 0):
            raise FormatError(
                f"shard {shard} of the reference counts has addresses with more subtractions than additions, so its"
                " layers do not match. Nothing was deleted. Start a clean run."
            )


class LocatedSet(Struct, frozen=True):
    """A set of hashes, and the folder of its files."""

    uri: str
    hashes: ShardedSet

    def find(self, wanted: Sequence[Hashes], its_shards_only: bool = False) -> list[npt.NDArray[np.bool_]]:
        """Whether the set has each wanted hash; see `ShardedSet.find`."""
        folder = RunFolder(open_writer(self.uri), self.uri.rpartition("/")[2])
        return self.hashes.find(folder, wanted, its_shards_only)


def in_any(
    sets: Sequence[LocatedSet], wanted: Sequence[Hashes], its_shards_only: bool = False
) -> list[npt.NDArray[np.bool_]]:
    """Return for each wanted hash whether any of several sets has it; see `ShardedSet.find`."""
    answers = [np.zeros(len(hashes), bool) for hashes in wanted]
    for item in sets:
        for answer, found in zip(answers, item.find(wanted, its_shards_only), strict=True):
            answer |= found
    return answers


class LiveSet(Struct, frozen=True):
    """All live addresses of a mark."""

    sets: tuple[LocatedSet, ...]  # an address in any of them is live
    counted: CountedSet | None = None  # an address with a count is live as well; None when `sets` has all
    counted_uri: str = ""

    @property
    def bits(self) -> int:
        """Largest `bits` of the sets: one of 2**bits shards is within one shard of each set."""
        counted = 0 if self.counted is None else self.counted.bits
        return max((counted, *(item.hashes.bits for item in self.sets)))

    @property
    def values(self) -> int:
        """The number of hashes read by a look-up; overlapping sets count twice."""
        counted = 0 if self.counted is None else sum(part.rows for part in self.counted.parts)
        return counted + sum(item.hashes.values for item in self.sets)

    def find(self, wanted: Sequence[Hashes], its_shards_only: bool = False) -> list[npt.NDArray[np.bool_]]:
        """Return for each wanted hash whether it is live; see `ShardedSet.find`."""
        answers = in_any(self.sets, wanted, its_shards_only)
        if self.counted is not None:
            folder = RunFolder(open_writer(self.counted_uri), "counted set")
            found = self.counted.find(folder, wanted, its_shards_only)
            for answer, more in zip(answers, found, strict=True):
                answer |= more
        return answers
