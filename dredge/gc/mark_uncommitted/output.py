"""What mark_uncommitted hands to later steps."""

from __future__ import annotations

from dredge.gc.slice_listing import SliceListingOutput
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo


class MarkUncommittedOutput(StepOutput):
    """Everything that branches have staged."""

    STEP = "mark_uncommitted"
    INPUTS = (SliceListingOutput,)

    @property
    def addresses(self) -> list[PartInfo]:
        """Rows of staged addresses."""
        return self.parts("addresses-")

    @property
    def hashes(self) -> list[PartInfo]:
        """Sorted hashes of the staged addresses."""
        return self.parts("hashes-")

    @property
    def heads(self) -> PartInfo:
        """Rows of the branch heads that were seen while staging was read."""
        return self.part("heads-00000.parquet")

    @property
    def exact(self) -> bool:
        """Whether every staging record was read from the key-value store, so that no staged entry can be hidden."""
        found: bool = self.summary.details.get("kv", {}).get("exact", False)
        return found

    @property
    def server_runs(self) -> list[str]:
        """Ids that the server gave to the scans."""
        found: list[str] = self.detail("server_runs")
        return found
