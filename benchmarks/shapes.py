"""The shapes of repositories that figures are given for."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
        lengths: how many lengths objects have; where they are few, every candidate is as long as an object in a head.
    """

    name: str
    objects: int
    staged: int
    garbage: int
    slices: int
    branches: int
    commits: int
    ranges: int
    lengths: int = 200

    @property
    def base(self) -> int:
        """Objects of the first commit: all but the staged, the garbage and those of later commits."""
        return self.objects - self.staged - self.garbage - self.later

    @property
    def later(self) -> int:
        """Live objects that commits after the first one bring."""
        return self.objects // 10


B1K = Shape("b1k", 1_000, 150, 50, 4, 10, 20, 66)
"""Small: whether everything works on a store."""
B10K = Shape("b10k", 10_000, 1_500, 500, 8, 100, 200, 661)
B100K = Shape("b100k", 100_000, 15_000, 5_000, 50, 200, 500, 1_774)
B500K = Shape("b500k", 500_000, 75_000, 25_000, 250, 500, 1_000, 3_444)
B10K_LENGTHS = replace(B10K, name="b10k-lengths", lengths=60_000)
SHAPES = {shape.name: shape for shape in (B1K, B10K, B10K_LENGTHS, B100K, B500K)}
