"""What bulk_delete hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.icechunk.collection.check_limits import CheckLimitsOutput
from dredge.runs import ledger
from dredge.runs.summary import PartInfo, StepOutput


class BulkDeleteOutput(StepOutput):
    """What became of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    @property
    def settled(self) -> list[PartInfo]:
        """Rows of the ledger, one for each candidate; none in a dry run."""
        return self.parts("")

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Address, code and message of some objects that could not be deleted."""
        found: list[dict[str, Any]] = self.summary.details.get("failures", [])
        return found

    @property
    def deleted_objects(self) -> int:
        """Objects that the store confirmed as deleted; 0 in a dry run."""
        return self.counts.get("deleted_objects", 0)
