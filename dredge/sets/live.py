"""What is live, as a later step looks it up: sets of hashes in several run folders, and reference counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dredge.runs.folder import RunFolder
from dredge.sets.hashes import Hashes
from dredge.sets.sharded import CountedSet, ShardedSet
from dredge.storage import open_writer


@dataclass(frozen=True, slots=True)
class LocatedSet:
    """A set of hashes, and the run folder it lies in.

    Attributes:
        uri: of the folder.
        hashes: the set.
    """

    uri: str
    hashes: ShardedSet

    def find(self, wanted: Sequence[Hashes], its_shards_only: bool = False) -> list[npt.NDArray[np.bool_]]:
        """Tell for each wanted hash whether the set has it; see `ShardedSet.find`."""
        folder = RunFolder(open_writer(self.uri), self.uri.rpartition("/")[2])
        return self.hashes.find(folder, wanted, its_shards_only)


def in_any(
    sets: Sequence[LocatedSet], wanted: Sequence[Hashes], its_shards_only: bool = False
) -> list[npt.NDArray[np.bool_]]:
    """Tell for each wanted hash whether any of some sets has it; see `ShardedSet.find`."""
    answers = [np.zeros(len(hashes), bool) for hashes in wanted]
    for item in sets:
        for answer, found in zip(answers, item.find(wanted, its_shards_only), strict=True):
            answer |= found
    return answers


@dataclass(frozen=True, slots=True)
class LiveSet:
    """Everything that must stay.

    Attributes:
        sets: an address in any of them is live.
        counted: an address with a count is live as well; None when `sets` has all.
        counted_uri: URI of the folder with the files of `counted`.
    """

    sets: tuple[LocatedSet, ...]
    counted: CountedSet | None = None
    counted_uri: str = ""

    @property
    def bits(self) -> int:
        """The finest cut of any of its sets: one of 2**bits shards of it lies in one shard of each."""
        counted = 0 if self.counted is None else self.counted.bits
        return max((counted, *(item.hashes.bits for item in self.sets)))

    @property
    def values(self) -> int:
        """How many hashes a look-up reads; more than there are, where sets overlap."""
        counted = 0 if self.counted is None else sum(part.rows for part in self.counted.parts)
        return counted + sum(item.hashes.values for item in self.sets)

    def find(self, wanted: Sequence[Hashes], its_shards_only: bool = False) -> list[npt.NDArray[np.bool_]]:
        """Tell for each wanted hash whether it is live.

        Args:
            wanted: any number of arrays, each in any order.
            its_shards_only: read no shard in which nothing is wanted, so damage there is not noticed.
        """
        answers = in_any(self.sets, wanted, its_shards_only)
        if self.counted is not None:
            folder = RunFolder(open_writer(self.counted_uri), "counted set")
            found = self.counted.find(folder, wanted, its_shards_only)
            for answer, more in zip(answers, found, strict=True):
                answer |= more
        return answers
