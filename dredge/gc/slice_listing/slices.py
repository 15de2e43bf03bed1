"""Which slices to list, and in which pieces.

    data/<slice>/<object>          a slice: its name is a descending xid, made when the slice was opened
    data/!ab/c/<slice>/<object>    extra levels of another edition; any depth
    data/<object>                  an object without a slice

Each folder directly below `data/` is one item. What lies in it is listed recursively, whatever its layout. An item
that turns out to be large is cut by key range, for which nothing needs to be known about its names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from dredge.errors import FormatError
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.run import Plan
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
