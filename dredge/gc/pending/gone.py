"""What the run deleted that left the state."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import Mask
from dredge.runs.summary import PartInfo
from dredge.sets.files import read_hashes
from dredge.sets.hashes import Hashes, contains
from dredge.storage import open_writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Hashes of what a run deleted; a payload.

    Attributes:
        uri: of its folder; "" where there is none.
        parts: files of sorted hashes.
    """

    uri: str = ""
    parts: list[PartInfo] = field(default_factory=list)

    def among(self, hashes: Hashes) -> Mask:
        """Tell of each hash whether the run deleted it.

        Args:
            hashes: in any order.
        """
        found = np.zeros(len(hashes), bool)
        if self.parts:
            folder = RunFolder(open_writer(self.uri), "an earlier run")
            for part in self.parts:
                found |= contains(read_hashes(folder, part), hashes)
        return found
