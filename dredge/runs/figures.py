"""Figures about some objects, which add up over tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

EXAMPLES_MAX = 10
"""Examples shown of each kind of object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Some objects of one kind; a payload.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
        examples: addresses of a few of them.
        byte_days: sum of bytes times the days left of their minimum storage duration.
    """

    objects: int = 0
    size_bytes: int = 0
    examples: tuple[str, ...] = ()
    byte_days: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            objects=self.objects + other.objects,
            size_bytes=self.size_bytes + other.size_bytes,
            examples=(*self.examples, *other.examples)[:EXAMPLES_MAX],
            byte_days=self.byte_days + other.byte_days,
        )

    def to_details(self) -> dict[str, Any]:
        """As summaries have it: `objects`, `bytes`, `examples`."""
        return {"objects": self.objects, "bytes": self.size_bytes, "examples": list(self.examples)}


def add_up(found: Iterable[Mapping[str, Figures]]) -> dict[str, Figures]:
    """Add up figures by kind."""
    total: dict[str, Figures] = {}
    for figures in found:
        for kind, more in figures.items():
            total[kind] = total.get(kind, Figures()) + more
    return total
