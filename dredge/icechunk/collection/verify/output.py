"""What verify hands to later steps."""

from __future__ import annotations

from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput
from dredge.icechunk.collection.check_limits import CheckLimitsOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.runs.summary import StepOutput


class VerifyOutput(StepOutput):
    """That what was deleted is gone, and what is live is there."""

    STEP = "verify"
    INPUTS = (MarkOutput, CheckLimitsOutput, BulkDeleteOutput)
