"""What the run deleted that left the state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dredge.gc.run import Run
from dredge.gc.state.base import open_base
from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import Mask
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import Hashes, contains, read_hashes
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

    @classmethod
    def of(cls, run: Run) -> Self:
        """What the run deleted that left the newest state, also where this run reads everything.

        Raises:
            FormatError: that state is not as it was.
        """
        if run.plan.state is None:
            return cls()
        state = open_base(run, run.plan.state).state
        return cls(uri=state.run_uri, parts=list(state.gone))

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
