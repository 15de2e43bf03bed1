"""What to list, and in which pieces.

    data/<slice>/<object>          a slice: its name is a descending xid, made when the slice was opened
    data/!ab/c/<slice>/<object>    extra levels of another edition; any depth
    data/<object>                  an object without a slice

Each folder directly below `data/` is one item; what lies in it is listed recursively, so that every layout is
exact. An item that turns out to be large is cut by key range: nothing needs to be known about its names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import FormatError
from dredge.gc.namespaces import DATA, METADATA
from dredge.graveler.xid import descending_time

# Keys are cut at these characters; a cut is exact whatever characters the keys really have.
_CUTS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
_YOUNG_MARGIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of listing.

    Attributes:
        prefix: of the keys.
        start_after: only keys greater.
        stop_before: only keys smaller.
        kind: "tree" (all below the prefix), "level" (objects directly below it) or "outside" (counted only).
        capped: whether the listing may stop when it gets long and hand back the rest.
    """

    prefix: str
    start_after: str = ""
    stop_before: str = ""
    kind: str = "tree"
    capped: bool = True

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "prefix": self.prefix,
            "start_after": self.start_after,
            "stop_before": self.stop_before,
            "kind": self.kind,
            "capped": self.capped,
        }


OUTSIDE = (
    Item("", "", METADATA, "outside"),
    Item("", METADATA + "\U0010ffff", DATA, "outside"),
    Item("", DATA + "\U0010ffff", "", "outside"),
)
"""Everything in the namespace but data and lakeFS's metadata."""


def slice_time(folder: str) -> datetime | None:
    """Tell when a slice was opened, or None when the folder's name is not a slice's.

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


def cut_rest(item: Item, first_key: str, last_key: str) -> list[Item]:
    """Cut what is left of an item, after its first keys were listed, into ranges that tile it exactly.

    The keys that were seen tell at which place names differ; the rest is cut at that place and at the one
    before it.

    Args:
        item: what was to be listed.
        first_key: of the listed keys.
        last_key: of the listed keys; the rest begins after it.
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
