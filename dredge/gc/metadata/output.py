"""What a collection of metadata leaves: what became of files that no commit named."""

from __future__ import annotations

from dredge.runs.summary import PartInfo, StepOutput


class MetadataOutput(StepOutput):
    """Files that went, and those that did not."""

    STEP = "metadata"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of files that were chosen to go: `name`, `size`, `outcome`, `message`."""
        return self.parts("ledger-")

    @property
    def copies(self) -> list[PartInfo]:
        """Rows of copies that were too old to be put back, as those of the ledger."""
        return self.parts("copies-")
