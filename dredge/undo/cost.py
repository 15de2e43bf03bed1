"""What it costs that deletions can be taken back: requests, bytes and time."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.runs.words import size_text
from dredge.undo.ways import QUARANTINE, VERSIONS

_REQUESTS_OF_COPY = 3
"""A look at the object, the copy, a look at the copy; objects above 5 GiB take one more for each GiB."""
_PART_BYTES = 1 << 30
_LIMIT_BYTES = 5 << 30
COPIES_PER_SECOND = 150.0
"""Of one task, with 16 copies under way and about a tenth of a second for each object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCost:
    """What a way costs.

    Attributes:
        way: "off", "versions" or "quarantine".
        requests: beyond those that delete.
        size_bytes: that stay in the store until they are purged.
        seconds: beyond those of deleting, in one task.
    """

    way: str
    requests: int
    size_bytes: int
    seconds: float

    @property
    def text(self) -> str:
        """In words: "6 requests and about 1 s for copies; 1.2 GiB stay …"."""
        if self.way == QUARANTINE:
            return (
                f"{self.requests:,} requests and about {self.seconds:,.0f} s for copies;"
                f" {size_text(self.size_bytes)} stay in the store until they are purged"
            )
        if self.way == VERSIONS:
            return (
                f"no further requests; {size_text(self.size_bytes)} stay in the store until they are purged"
            )
        return "nothing"


def cost_of_undo(way: str, objects: int, size_bytes: int) -> UndoCost:
    """Tell what it costs to be able to take deletions back.

    Args:
        way: "off", "versions" or "quarantine".
        objects: that are to be deleted.
        size_bytes: their sizes together.
    """
    if way == QUARANTINE:
        # The sizes of single objects are not known here: at most so many parts can there be.
        parts = size_bytes // _PART_BYTES if size_bytes > _LIMIT_BYTES else 0
        requests = _REQUESTS_OF_COPY * objects + parts
        return UndoCost(
            way=way, requests=requests, size_bytes=size_bytes, seconds=objects / COPIES_PER_SECOND
        )
    return UndoCost(way=way, requests=0, size_bytes=size_bytes if way == VERSIONS else 0, seconds=0.0)
