"""What check_limits hands to later steps."""

from __future__ import annotations

import json
from typing import Any

from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput

CANARIES = "canaries.json"


class CheckLimitsOutput(StepOutput):
    """What each guard found."""

    STEP = "check_limits"
    INPUTS = (MarkOutput, ListCandidatesOutput)

    @property
    def verdict(self) -> str:
        """Of all guards together."""
        found: str = self.detail("verdict")
        return found

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Of each guard, as JSON objects."""
        found: list[dict[str, Any]] = self.summary.details.get("findings", [])
        return found

    def read_canaries(self, folder: RunFolder) -> list[str]:
        """Read the keys of the canaries that the store had when the guards looked."""
        found: list[str] = json.loads(folder.read_bytes(self.part(CANARIES)))
        return found
