"""What check_limits hands to later steps."""

from __future__ import annotations

import json

from dredge.approve.output import GuardsOutput
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.runs.folder import RunFolder

CANARIES = "canaries.json"


class CheckLimitsOutput(GuardsOutput):
    """What each guard found."""

    INPUTS = (MarkOutput, ListCandidatesOutput)

    def read_canaries(self, folder: RunFolder) -> list[str]:
        """Read the keys of the canaries that the store had when the guards looked."""
        found: list[str] = json.loads(folder.read_bytes(self.part(CANARIES)))
        return found
