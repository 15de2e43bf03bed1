"""What subtract hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.pending.known import NAME, Known, known_list
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract.early_deletion import early_text
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo, StepOutput


class SubtractOutput(StepOutput):
    """The candidates."""

    STEP = "subtract"
    INPUTS = (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput)

    @property
    def candidates(self) -> list[PartInfo]:
        """Rows of candidates; schema `CANDIDATES`."""
        return self.parts("part-")

    @property
    def hashes(self) -> list[PartInfo]:
        """Sorted hashes of the candidates that nothing holds, a file for each of `candidates`."""
        return self.parts("hashes-")

    @property
    def with_holds(self) -> list[PartInfo]:
        """Those of `candidates` in which something is held: their hashes are fewer than their rows."""
        free = {_stem(part): part.rows for part in self.hashes}
        return [part for part in self.candidates if free.get(_stem(part)) != part.rows]

    @property
    def young(self) -> list[PartInfo]:
        """Rows of objects that nothing names and that are too young."""
        return self.parts("young-")

    def known_list(self, folder: RunFolder) -> Known:
        """The pending list that the run builds on.

        Args:
            folder: the run folder.
        """
        return known_list(folder, self.part(NAME))

    @property
    def reasons(self) -> dict[str, dict[str, Any]]:
        """Objects, bytes and examples, by the reason why they are garbage."""
        found: dict[str, dict[str, Any]] = self.detail("reasons")
        return found

    @property
    def nested(self) -> list[str]:
        """Beginnings of addresses that are kept because another repository lies there or has left its files."""
        found: list[str] = self.summary.details.get("nested", [])
        return found

    @property
    def early_deletion(self) -> str:
        """What deleting the candidates costs because it is early, in words; "" for nothing."""
        return early_text(self.summary.details.get("early_deletion", {}))


def _stem(part: PartInfo) -> str:
    """What the rows of candidates and their hashes have in common in their names."""
    return part.name.partition("-")[2].partition(".")[0]
