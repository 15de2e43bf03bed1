"""Which slices to list, and in which pieces.

    data/<slice>/<object>          a slice: its name is a descending xid, made when the slice was opened
    data/!ab/c/<slice>/<object>    extra levels of another edition; any depth
    data/<object>                  an object without a slice

Each folder directly below `data/` is one item. What lies in it is listed recursively, whatever its layout. An item
that turns out to be large is cut by key range, for which nothing needs to be known about its names.

What slice_listing hands to later steps.
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
from dredge.runs.summary import PartInfo, StepOutput
from dredge.xid import descending_time

# Keys are cut at these characters; a cut is exact whatever characters the keys really have.
_CUTS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
_YOUNG_MARGIN = timedelta(hours=1)

type Kind = Literal["tree", "level", "outside"]


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of the listing.

    Attributes:
        prefix: every key begins with it.
        start_after: only keys greater than this; "" for all.
        stop_before: only keys smaller than this; "" for all.
        kind: "tree" (all below the prefix), "level" (objects directly below it) or "outside" (only counted).
        capped: whether the listing may stop when it gets long, and leave the rest to other tasks.
    """

    prefix: str
    start_after: str = ""
    stop_before: str = ""
    kind: Kind = "tree"
    capped: bool = True


OUTSIDE = (
    Item("", "", METADATA, "outside"),
    Item("", METADATA + "\U0010ffff", DATA, "outside"),
    Item("", DATA + "\U0010ffff", "", "outside"),
)
"""Everything in the namespace except `data/` and `_lakefs/`."""


def slice_time(folder: str) -> datetime | None:
    """Tell when a slice was opened; None when the folder's name is not that of a slice.

    Args:
        folder: key of the folder, with or without its trailing slash.
    """
    try:
        return descending_time(folder.rstrip("/").rpartition("/")[2])
    except FormatError:
        return None


def is_young(folder: str, cutoff: datetime, now: datetime) -> bool:
    """Whether a slice was opened so late that nothing in it can be older than the cutoff.

    A name that claims to be from the future proves nothing, and neither does one near the cutoff: the servers
    that name slices have clocks of their own.

    Args:
        folder: key of the folder.
        cutoff: objects strictly older are candidates.
        now: the store's time.
    """
    opened = slice_time(folder)
    return opened is not None and cutoff + _YOUNG_MARGIN <= opened <= now + _YOUNG_MARGIN


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which slices a run lists.

    Attributes:
        listed: folders, as keys.
        young: number of slices that can hold nothing older than the cutoff.
        again: number of the listed ones that are listed only because objects were brought back into them.
        covered: number of slices that earlier runs have covered.
        other: number of slices outside the window.
    """

    listed: list[str]
    young: int
    again: int
    covered: int
    other: int


def choose_slices(plan: Plan, folders: Iterable[str]) -> Chosen:
    """Choose the slices a run lists: all but those whose name proves that there is nothing to find.

    Args:
        plan: gives cutoff, window, the slices covered, and those that objects came back into.
        folders: keys of the folders directly below `data/`.
    """
    listed: list[str] = []
    counts: Counter[str] = Counter()
    for folder in folders:
        why = _why(plan, folder)
        counts[why] += 1
        if why in (_NEW, _AGAIN):
            listed.append(folder)
    return Chosen(listed, counts[_YOUNG], counts[_AGAIN], counts[_COVERED], counts[_OTHER])


_NEW, _YOUNG, _AGAIN, _COVERED, _OTHER = "new", "young", "again", "covered", "other"


def _why(plan: Plan, folder: str) -> str:
    """Why a slice is listed, or need not be."""
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
    """Cut what is left of an item, after its first keys were listed, into ranges that cover it exactly.

    The listed keys tell at which character names differ; the rest is cut at that character and at the one before.

    Args:
        item: what was to be listed.
        first_key: the first listed key.
        last_key: the last listed key; the rest begins after it.
    """
    differ = _common_length(first_key, last_key)
    cuts = {
        last_key[:place] + character
        for place in (differ - 1, differ)
        if len(item.prefix) <= place < len(last_key)
        for character in _CUTS
    }
    inside = sorted(
        cut for cut in cuts if cut > last_key and (not item.stop_before or cut < item.stop_before)
    )
    return list(_ranges(item, last_key, inside))


def _ranges(item: Item, start: str, cuts: Iterable[str]) -> Iterable[Item]:
    for cut in cuts:
        # `start_after` leaves out its own key, so the range before a cut has to take the cut in.
        yield replace(item, start_after=start, stop_before=cut + "\0")
        start = cut
    yield replace(item, start_after=start)


def _common_length(first: str, second: str) -> int:
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


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
