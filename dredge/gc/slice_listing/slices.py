"""The choice of slices, and the files of the step.

    data/<slice>/<object>          a slice: its name is a descending xid, made when the slice was opened
    data/!ab/c/<slice>/<object>    extra levels of another edition; any depth
    data/<object>                  an object without a slice

Each folder directly below `data/` is one item, listed recursively in any layout. A large item is cut by key
range, without assumptions about its names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.namespaces import DATA, METADATA, left_prefixes
from dredge.gc.run import Plan
from dredge.runs.summary import Detail, NamedParts, StepOutput
from dredge.xid import descending_time

# Keys are cut at these characters. A cut is exact for all other characters, too.
_CUTS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
# The servers that name slices have clocks of their own.
_YOUNG_MARGIN = timedelta(hours=1)

LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),  # key relative to the storage namespace, raw
        pa.field("size", pa.int64(), nullable=False),  # in bytes
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),  # by the store's clock
        pa.field("etag", pa.string()),
        pa.field("hash", pa.uint64(), nullable=False),  # `dredge.hashing.hash64` of the address
        pa.field("storage_class", pa.string()),  # null for the standard class
    ]
)
# Names of the step's files begin with these.
OLD, YOUNG = "part", "young"


class SliceListingOutput(StepOutput):
    """The objects of the store below `data/`."""

    STEP = "slice_listing"

    # Rows (`LISTED`) of objects older than the cutoff, and of younger ones in slices that no later run lists again.
    listed = NamedParts(f"{OLD}-")
    young = NamedParts(f"{YOUNG}-")
    # Name of the newest slice; "" without slices.
    first_slice: Detail[str] = Detail("first_slice")
    # Folders below `data/` with files of another repository, existing or deleted.
    foreign_folders: Detail[list[str]] = Detail("foreign_folders")

    @property
    def from_inventory(self) -> bool:
        """Whether the rows are from an inventory, not from a listing of the store."""
        return "inventory" in self.summary.details

    @property
    def foreign_prefixes(self) -> set[str]:
        """Prefixes kept of these folders."""
        return {
            prefix for folder in self.foreign_folders for prefix in left_prefixes(folder, _is_own(folder))
        }

    @property
    def unlisted_text(self) -> str:
        """A note about unlisted slices, which are too young; "" without such slices."""
        return unlisted_text(self.counts["young_slices"], self.counts["slices"])


def _is_own(folder: str) -> bool:
    above = folder.rstrip("/").rpartition("/")[0]
    return folder == DATA or (f"{above}/" == DATA and slice_time(folder) is not None)


def unlisted_text(young_slices: int, slices: int) -> str:
    """A note about unlisted slices, which are too young; "" without such slices."""
    if not young_slices:
        return ""
    return (
        f"{young_slices:,} of {slices:,} slices were not listed, because all their objects are too young to be"
        " deleted. These objects are not counted here, neither as live nor as young."
    )


type Kind = Literal["tree", "level", "outside"]


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of the listing."""

    prefix: str  # of every key
    start_after: str = ""  # only greater keys; "" for all
    stop_before: str = ""  # only smaller keys; "" for all
    # "tree" (all below the prefix), "level" (objects directly below it) or "outside" (only counted)
    kind: Kind = "tree"
    capped: bool = True  # whether a long listing may stop, and leave the rest to other tasks


# The namespace except `data/` and `_lakefs/`.
OUTSIDE = (
    Item("", "", METADATA, "outside"),
    Item("", METADATA + "\U0010ffff", DATA, "outside"),
    Item("", DATA + "\U0010ffff", "", "outside"),
)


def slice_time(folder: str) -> datetime | None:
    """The time when a slice was opened, by its key; None for any other folder."""
    try:
        return descending_time(folder.rstrip("/").rpartition("/")[2])
    except FormatError:
        return None


def is_young(folder: str, cutoff: datetime, now: datetime) -> bool:
    """Whether a slice was opened so late that all its objects are younger than the cutoff.

    A name near the cutoff, or with a time after `now` (the store's time), is no proof.
    """
    opened = slice_time(folder)
    return opened is not None and cutoff + _YOUNG_MARGIN <= opened <= now + _YOUNG_MARGIN


# Reasons to list a slice (the first two) or to skip it.
_NEW, _AGAIN, _YOUNG, _COVERED, _OTHER = "new", "again", "young", "covered", "other"


def choose_slices(plan: Plan, folders: Iterable[str]) -> tuple[list[str], Counter[str]]:
    """Choose the slices to list among the folders directly below `data/`; count all by reason.

    A slice is only skipped if its name proves that it has no candidates: all objects are "young", "covered" by earlier
    runs, or it is of an "other" window. Slices listed "again" have restored objects.
    """
    why = {folder: _why(plan, folder) for folder in folders}
    return [folder for folder in why if why[folder] in (_NEW, _AGAIN)], Counter(why.values())


def _why(plan: Plan, folder: str) -> str:
    opened, (begin, end) = slice_time(folder), plan.window
    if opened is None:
        return _NEW
    if is_young(folder, plan.cutoff, plan.created_at):
        return _YOUNG
    if begin <= opened < end and not plan.covered.has(opened):
        return _NEW
    if plan.again.has(opened):
        return _AGAIN
    return _COVERED if plan.covered.has(opened) else _OTHER


def cut_rest(item: Item, first_key: str, last_key: str) -> list[Item]:
    """Cut the rest of an item, after the last listed key, into ranges that cover it exactly.

    The rest is cut at the first character at which the listed keys differ, and at the character before.
    """
    pairs = enumerate(zip(first_key, last_key, strict=False))
    differ = next(
        (place for place, (one, other) in pairs if one != other), min(len(first_key), len(last_key))
    )
    cuts = {
        last_key[:place] + character
        for place in (differ - 1, differ)
        if len(item.prefix) <= place < len(last_key)
        for character in _CUTS
    }
    inside = sorted(
        cut for cut in cuts if cut > last_key and (not item.stop_before or cut < item.stop_before)
    )
    ranges = []
    for cut in inside:
        # `start_after` excludes its own key, so the range before a cut includes the cut.
        ranges.append(replace(item, start_after=last_key, stop_before=cut + "\0"))
        last_key = cut
    return [*ranges, replace(item, start_after=last_key)]
