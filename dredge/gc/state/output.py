"""What the state's advance leaves in the run folder."""

from __future__ import annotations

from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.verify import VerifyOutput
from dredge.runs.summary import StepOutput


class StateOutput(StepOutput):
    """The state that the next run may build on."""

    STEP = "state"
    INPUTS = (*BulkDeleteOutput.INPUTS, BulkDeleteOutput, VerifyOutput)
