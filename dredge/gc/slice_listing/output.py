"""What slice_listing hands to later steps."""

from __future__ import annotations

import pyarrow as pa

from dredge.gc.namespaces import DATA, left_prefixes
from dredge.gc.slice_listing.slices import slice_time
from dredge.runs.summary import PartInfo, StepOutput

LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string()),
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("storage_class", pa.string()),
    ]
)
"""Rows of objects: `address` is the key relative to the storage namespace, raw; `size` in bytes; `last_modified` by
the store's clock; `storage_class` is null for the plain one; `hash` is `dredge.hashing.hash64` of the address."""
OLD, YOUNG = "part", "young"
"""Files of the step begin with these names."""


class SliceListingOutput(StepOutput):
    """The objects of the store below `data/`."""

    STEP = "slice_listing"

    @property
    def listed(self) -> list[PartInfo]:
        """Rows (`LISTED`) of objects older than the cutoff."""
        return self.parts(f"{OLD}-")

    @property
    def young(self) -> list[PartInfo]:
        """Rows (`LISTED`) of objects that are too young, in slices that no later run lists again."""
        return self.parts(f"{YOUNG}-")

    @property
    def from_inventory(self) -> bool:
        """Whether the rows say what was there when an inventory was made, and not what the store listed."""
        return "inventory" in self.summary.details

    @property
    def first_slice(self) -> str:
        """Name of the newest slice; "" when there is none."""
        found: str = self.detail("first_slice")
        return found

    @property
    def foreign_folders(self) -> list[str]:
        """Folders below `data/` whose files show another repository, one that exists or was deleted."""
        found: list[str] = self.detail("foreign_folders")
        return found

    @property
    def foreign_prefixes(self) -> set[str]:
        """What is kept of these folders."""
        return {
            prefix for folder in self.foreign_folders for prefix in left_prefixes(folder, _is_own(folder))
        }

    @property
    def unlisted_text(self) -> str:
        """How many slices were left out for being too young, so that nobody misses their objects in the figures.

        Two sentences; "" when none was left out.
        """
        return unlisted_text(self.counts["young_slices"], self.counts["slices"])


def _is_own(folder: str) -> bool:
    """Whether objects of the repository itself lie in a folder or in its folders."""
    above = folder.rstrip("/").rpartition("/")[0]
    return folder == DATA or (f"{above}/" == DATA and slice_time(folder) is not None)


def unlisted_text(young_slices: int, slices: int) -> str:
    """Word how many of a number of slices were left out for being too young; "" when none was."""
    if not young_slices:
        return ""
    return (
        f"{young_slices:,} of {slices:,} slices were not listed, because nothing in them is old"
        " enough to go. So their objects are not counted here, neither as live nor as young."
    )
