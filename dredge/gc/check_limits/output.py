"""What check_limits hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SubtractOutput
from dredge.runs.output import StepOutput


class CheckLimitsOutput(StepOutput):
    """What each guard found, and which candidates are held."""

    STEP = "check_limits"
    INPUTS = (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput, SubtractOutput)

    @property
    def verdict(self) -> str:
        """Of all guards together."""
        found: str = self.detail("verdict")
        return found

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Of each guard, as JSON objects."""
        found: list[dict[str, Any]] = self.detail("findings")
        return found

    @property
    def held(self) -> list[dict[str, Any]]:
        """Candidates that stay, by code: code, why, objects, bytes, examples."""
        found: list[dict[str, Any]] = self.detail("held")
        return found
