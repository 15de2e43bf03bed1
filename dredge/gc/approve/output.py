"""What approve hands to later steps."""

from __future__ import annotations

from typing import Any

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.runs.output import StepOutput


class ApproveOutput(StepOutput):
    """What a person was asked, and said. A run that has to ask nobody has no such step."""

    STEP = "approve"
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    @property
    def request_digest(self) -> str:
        """SHA-256 of the request that was answered."""
        found: str = self.detail("request_digest")
        return found

    @property
    def approval(self) -> dict[str, Any]:
        """For reports: `state` ("waiting", "approved" or "rejected"), `why`, `objects`, `bytes`, `answer_until`; once
        somebody answered also `by`, `through`, `at`."""
        found: dict[str, Any] = self.detail("approval")
        return found
