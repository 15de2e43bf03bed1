"""Objects and their bytes, added up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Amount:
    """Some objects.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
    """

    objects: int = 0
    size_bytes: int = 0

    def add(self, objects: int, size_bytes: int) -> None:
        """Add some; negative numbers take away."""
        self.objects += objects
        self.size_bytes += size_bytes
