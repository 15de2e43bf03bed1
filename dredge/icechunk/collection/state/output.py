"""What the state's advance leaves in the run folder."""

from __future__ import annotations

from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput
from dredge.icechunk.collection.verify import VerifyOutput
from dredge.runs.summary import StepOutput
from dredge.runs.versions import Version


class StateOutput(StepOutput):
    """The state that the next run may build on."""

    STEP = "state"
    INPUTS = (*BulkDeleteOutput.INPUTS, BulkDeleteOutput, VerifyOutput)

    @property
    def version(self) -> Version:
        """The version of the state that was written."""
        return Version(**self.detail("version"))
