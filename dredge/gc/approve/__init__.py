"""Step approve of a lakeFS collection: a person approves the candidates, if the run must ask (`dredge.approve`)."""

from __future__ import annotations

from dredge.approve import output
from dredge.approve.step import Approvals
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.subtract import SubtractOutput


class ApproveOutput(output.ApproveOutput):
    """The request to a person about a lakeFS collection, and the answer."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, SubtractOutput
    COMMAND = "dredge gc"


_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question
