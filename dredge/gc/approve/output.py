"""What approve hands to later steps."""

from __future__ import annotations

from dredge.approve import output
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.subtract import SubtractOutput


class ApproveOutput(output.ApproveOutput):
    """What a person was asked about a collection of a lakeFS repository, and said."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, SubtractOutput
    COMMAND = "dredge gc"
