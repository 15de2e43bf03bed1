"""Step approve: a person says whether the candidates may be deleted, where the run has to ask (`dredge.approve`)."""

from __future__ import annotations

from dredge.approve import output
from dredge.approve.step import Approvals
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.subtract import SubtractOutput


class ApproveOutput(output.ApproveOutput):
    """What a person was asked about a collection of a lakeFS repository, and said."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, SubtractOutput
    COMMAND = "dredge gc"


_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question
