"""Looking hashes up in sets that lie in shards: one shard in memory at a time, whatever the size of the
set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dredge.gc.sets.hashes import Hashes, contains, read_hashes, shard_of
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo


@dataclass(frozen=True, slots=True)
class ShardedSet:
    """A set of hashes in files.

    Attributes:
        bits: 2**bits shards, by the first bits of the hash.
        shards: file by shard; a shard without file is empty.
    """

    bits: int
    shards: dict[int, PartInfo]

    @classmethod
    def of(cls, parts: Sequence[PartInfo], bits: int) -> ShardedSet:
        """Take files named `…-<shard>.u64`."""
        return cls(bits, {int(part.name.removesuffix(".u64").rpartition("-")[2]): part for part in parts})

    @property
    def values(self) -> int:
        """How many hashes there are."""
        return sum(part.rows for part in self.shards.values())

    def find(self, folder: RunFolder, wanted: Sequence[Hashes]) -> list[npt.NDArray[np.bool_]]:
        """Tell for each wanted hash whether the set has it.

        Args:
            folder: of the run.
            wanted: any number of arrays.

        Returns:
            An array of answers for each.
        """
        answers = [np.zeros(len(hashes), bool) for hashes in wanted]
        places = [shard_of(hashes, self.bits) for hashes in wanted]
        for shard, part in sorted(self.shards.items()):
            if not part.rows:
                continue
            values = read_hashes(folder, part)
            for hashes, place, answer in zip(wanted, places, answers, strict=True):
                here = place == shard if self.bits else slice(None)
                answer[here] = contains(values, hashes[here])
        return answers

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"bits": self.bits, "parts": [part.to_json() for part in self.shards.values()]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardedSet:
        """From the object that `to_json` made."""
        return cls.of([PartInfo.from_json(part) for part in value["parts"]], value["bits"])
