"""The shapes of repositories that figures are given for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """Size and history of a generated repository.

    Attributes:
        name: what the figures call it.
        objects: objects in the store.
        staged: of them, uncommitted and live.
        garbage: of them, referenced by nothing or by expired commits only.
        slices: folders below data/.
        branches: branches, main among them.
        commits: commits on main; the oldest fifth is older than the retention rules.
        ranges: distinct ranges of all commits, roughly.
    """

    name: str
    objects: int
    staged: int
    garbage: int
    slices: int
    branches: int
    commits: int
    ranges: int

    @property
    def base(self) -> int:
        """Objects of the first commit: all but the staged, the garbage and those of later commits."""
        return self.objects - self.staged - self.garbage - self.later

    @property
    def later(self) -> int:
        """Live objects that commits after the first one bring."""
        return self.objects // 10


B10K = Shape("b10k", 10_000, 1_500, 500, 8, 100, 200, 661)
B100K = Shape("b100k", 100_000, 15_000, 5_000, 50, 200, 500, 1_774)
B500K = Shape("b500k", 500_000, 75_000, 25_000, 250, 500, 1_000, 3_444)
SHAPES = {shape.name: shape for shape in (B10K, B100K, B500K)}
