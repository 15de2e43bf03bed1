"""What slice_listing hands to later steps."""

from __future__ import annotations

from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo


class SliceListingOutput(StepOutput):
    """The objects of the store below `data/`."""

    STEP = "slice_listing"

    @property
    def listed(self) -> list[PartInfo]:
        """Rows of objects older than the cutoff; schema `LISTED`."""
        return self.parts("part-")

    @property
    def young(self) -> list[PartInfo]:
        """Rows of objects that are too young, in slices that no later run lists again."""
        return self.parts("young-")

    @property
    def first_slice(self) -> str:
        """Name of the newest slice; "" when there is none."""
        found: str = self.detail("first_slice")
        return found
