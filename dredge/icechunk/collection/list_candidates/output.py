"""What list_candidates hands to later steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from dredge.icechunk.collection.kinds import FOLDERS, OBJECT_FOLDERS
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.sets import Ids
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.pending.store import PendingList
from dredge.runs.summary import PartInfo, StepOutput

FOUND = "found-"
"""Begins the names of the files of what was found; those of candidates begin with the kind."""
_NEW_CHUNKS = "new-chunks-"


class ListCandidatesOutput(StepOutput):
    """What may be deleted, and figures of all that was listed."""

    STEP = "list_candidates"
    INPUTS = (MarkOutput,)

    def candidates(self, kind: str) -> list[PartInfo]:
        """Rows of the candidates of a kind, which have waited; schema `candidates.SCHEMA`."""
        return self.parts(f"{kind}-")

    def keys(self, folder: RunFolder, kind: str) -> list[str]:
        """Read the keys of all candidates of a kind: for kinds of which there are few."""
        keys: list[str] = []
        for table in folder.read_parts(self.candidates(kind), ["address"]):
            keys += table["address"].to_pylist()
        return keys

    def count(self, kind: str, figure: str) -> int:
        """Give a figure of a kind, such as `candidates_objects` of chunks; 0 when it was not listed."""
        return self.counts.get(f"{kind}_{figure}", 0)

    def total(self, figure: str) -> int:
        """Give the sum of a figure over all kinds."""
        return sum(self.count(kind, figure) for kind in FOLDERS)

    @property
    def written_and_counted(self) -> dict[str, tuple[int, int]]:
        """Rows that were written, and candidates that were counted, by kind: equal when none was lost."""
        return {
            kind: (sum(part.rows for part in self.candidates(kind)), self.count(kind, "candidates_objects"))
            for kind in OBJECT_FOLDERS
        }

    @property
    def pending(self) -> dict[str, Any]:
        """Figures of the pending list after this run (`dredge.runs.pending.figures`)."""
        found: dict[str, Any] = self.detail("pending")
        return found

    @property
    def pending_list(self) -> tuple[PendingList | None, str | None]:
        """The list that this run leaves, but for the time, and the tag of the pointer as it was read; None in a report
        on a planned expiration, which leaves none."""
        found, etag = self.summary.details.get("pending_list", (None, None))
        return None if found is None else from_json(PendingList, found), etag

    @property
    def waits_anew(self) -> str:
        """Why the list before could not be used, so that everything waits anew; "" otherwise."""
        found: str = self.summary.details.get("waits_anew", "")
        return found

    @property
    def drift(self) -> dict[str, Any] | None:
        """What optimized runs had missed; None where nobody can tell."""
        return self.summary.details.get("drift")

    @property
    def new_chunks(self) -> list[PartInfo]:
        """Sets of the chunks that new manifests name and earlier runs did not know (optimized runs)."""
        return self.parts(_NEW_CHUNKS)

    @property
    def absent_chunks(self) -> Ids:
        """Live chunks that were not listed: some of them, sorted."""
        hashes = self.detail("absent").get("chunks", [])
        return np.sort(np.array([int(digits, 16) for digits in hashes], np.uint64))


def new_chunks_name(number: int) -> str:
    """Name a set of new chunks, relative to the run's folder.

    Args:
        number: of the task that writes it.
    """
    return f"{ListCandidatesOutput.STEP}/{_NEW_CHUNKS}{number:05d}.ids"
