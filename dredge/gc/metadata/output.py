"""What a collection of metadata leaves: which files it found to be garbage, and what became of them."""

from __future__ import annotations

from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo


class MetadataOutput(StepOutput):
    """Files that no commit named."""

    STEP = "metadata"

    @property
    def garbage(self) -> PartInfo:
        """Rows of files that no commit named: `name`, `kind`, `size`, `versions`."""
        return self.part("garbage-00000.parquet")

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of files that were chosen to go: `name`, `size`, `outcome`, `message`."""
        return self.parts("ledger-")

    @property
    def copies(self) -> list[PartInfo]:
        """Rows of copies that were too old to be put back, as those of the ledger."""
        return self.parts("copies-")
