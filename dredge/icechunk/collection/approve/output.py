"""What approve hands to later steps."""

from __future__ import annotations

from dredge.approve import output
from dredge.icechunk.collection.check_limits import CheckLimitsOutput
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput


class ApproveOutput(output.ApproveOutput):
    """What a person was asked about a collection of an Icechunk repository, and said."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, ListCandidatesOutput
    COMMAND = "dredge icechunk"
