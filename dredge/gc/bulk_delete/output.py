"""What bulk_delete hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.runs import ledger
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo


def stem_of(part: PartInfo) -> str:
    """What a part of the candidates is called in the ledger."""
    return part.name.rpartition("/")[2].removesuffix(".parquet")


class BulkDeleteOutput(StepOutput):
    """What became of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    @property
    def settled(self) -> list[PartInfo]:
        """Rows of the ledger, one for each candidate; none in a dry run."""
        return self.parts("")

    def settled_of(self, part: PartInfo) -> PartInfo:
        """Give the rows of the ledger for a part of the candidates; raises FormatError when there are none."""
        return self.part(f"{stem_of(part)}.parquet")

    @property
    def is_settled(self) -> bool:
        """Whether it is known what became of each candidate; not so in a dry run."""
        return "groups" in self.summary.details

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Objects and bytes by outcome, code and reason; empty in a dry run."""
        found: list[dict[str, Any]] = self.summary.details.get("groups", [])
        return found

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Some of the objects that could not be deleted."""
        found: list[dict[str, Any]] = self.summary.details.get("failures", [])
        return found
