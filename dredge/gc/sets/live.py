"""What is live, as a later step looks it up: sets of hashes in several run folders, and a counted set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dredge.gc.sets.hashes import Hashes
from dredge.gc.sets.refcounts import CountedSet
from dredge.gc.sets.sharded import ShardedSet
from dredge.runs.folder import RunFolder
from dredge.storage import open_writer


@dataclass(frozen=True, slots=True)
class LocatedSet:
    """A set of hashes, and the run folder it lies in.

    Attributes:
        uri: of the folder.
        found: the set.
    """

    uri: str
    found: ShardedSet

    def find(self, wanted: Sequence[Hashes]) -> list[npt.NDArray[np.bool_]]:
        """Tell for each wanted hash whether the set has it."""
        folder = RunFolder(open_writer(self.uri), self.uri.rpartition("/")[2])
        return self.found.find(folder, wanted)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"uri": self.uri, "set": self.found.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LocatedSet:
        """From the object that `to_json` made."""
        return cls(value["uri"], ShardedSet.from_json(value["set"]))


def in_any(sets: Sequence[LocatedSet], wanted: Sequence[Hashes]) -> list[npt.NDArray[np.bool_]]:
    """Tell for each wanted hash whether any of some sets has it."""
    answers = [np.zeros(len(hashes), bool) for hashes in wanted]
    for found in sets:
        for answer, more in zip(answers, found.find(wanted), strict=True):
            answer |= more
    return answers


@dataclass(frozen=True, slots=True)
class LiveSet:
    """Everything that must stay.

    Attributes:
        sets: live when in any of them.
        counted: live when counted at all; None when the sets say everything.
        counted_uri: folder of the counted set's files.
    """

    sets: tuple[LocatedSet, ...]
    counted: CountedSet | None = None
    counted_uri: str = ""

    def find(self, wanted: Sequence[Hashes]) -> list[npt.NDArray[np.bool_]]:
        """Tell for each wanted hash whether it is live."""
        answers = in_any(self.sets, wanted)
        if self.counted is not None:
            folder = RunFolder(open_writer(self.counted_uri), "counted set")
            for answer, more in zip(answers, self.counted.find(folder, wanted), strict=True):
                answer |= more
        return answers

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "sets": [found.to_json() for found in self.sets],
            "counted": None if self.counted is None else self.counted.to_json(),
            "counted_uri": self.counted_uri,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LiveSet:
        """From the object that `to_json` made."""
        counted = value["counted"]
        return cls(
            tuple(LocatedSet.from_json(found) for found in value["sets"]),
            None if counted is None else CountedSet.from_json(counted),
            value["counted_uri"],
        )
