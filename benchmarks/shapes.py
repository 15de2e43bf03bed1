"""Shapes of generated repositories."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Shape:
    """Size and history of a generated repository.

    Attributes:
        name: in the tables.
        objects: objects in the store.
        staged: number of uncommitted live ones.
        garbage: number of unreferenced ones, and of those in expired commits only.
        slices: folders below data/.
        branches: branches, with main.
        commits: commits on main; the oldest fifth is older than the retention rules.
        ranges: distinct ranges of all commits, roughly.
        lengths: number of different object sizes; with few, every candidate has the size of an object in a
            head.
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
        """Objects of the first commit."""
        return self.objects - self.staged - self.garbage - self.later

    @property
    def later(self) -> int:
        """Live objects of the later commits."""
        return self.objects // 10


B1K = Shape("b1k", 1_000, 150, 50, 4, 10, 20, 66)
"""Small: a functional test on a store."""
B10K = Shape("b10k", 10_000, 1_500, 500, 8, 100, 200, 661)
B100K = Shape("b100k", 100_000, 15_000, 5_000, 50, 200, 500, 1_774)
B500K = Shape("b500k", 500_000, 75_000, 25_000, 250, 500, 1_000, 3_444)
B10K_LENGTHS = replace(B10K, name="b10k-lengths", lengths=60_000)
BRANCHES = Shape("branches", 30_000, 10_000, 500, 8, 10_000, 200, 661)
"""Many branches, each with a staged object."""
SHAPES = {shape.name: shape for shape in (B1K, B10K, B10K_LENGTHS, B100K, B500K, BRANCHES)}
