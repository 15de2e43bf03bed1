"""What verify hands to later steps."""

from __future__ import annotations

from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.subtract import SubtractOutput
from dredge.runs.summary import StepOutput


class VerifyOutput(StepOutput):
    """That what was deleted is gone, and what lives is still there."""

    STEP = "verify"
    INPUTS = (MarkUncommittedOutput, SubtractOutput, BulkDeleteOutput)
