"""Which slices are meant: intervals of the time in their names."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
"""Before every slice."""
END = datetime(9999, 12, 31, tzinfo=UTC)
"""After every slice."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Half-open intervals of time, sorted, apart from each other.

    Attributes:
        intervals: begin and end of each, aware UTC.
    """

    intervals: tuple[tuple[datetime, datetime], ...] = ()

    @classmethod
    def of(cls, intervals: Iterable[tuple[datetime, datetime]]) -> Coverage:
        """Unite intervals; empty ones count nothing."""
        united: list[tuple[datetime, datetime]] = []
        for begin, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
            if united and begin <= united[-1][1]:
                united[-1] = (united[-1][0], max(united[-1][1], end))
            else:
                united.append((begin, end))
        return cls(tuple(united))

    def add(self, begin: datetime, end: datetime) -> Coverage:
        """These intervals and one more."""
        return Coverage.of([*self.intervals, (begin, end)])

    def at_most(self, count: int) -> Coverage:
        """These intervals and more, in no more than so many: the smallest gaps are filled.

        Args:
            count: at least 1.
        """
        if len(self.intervals) <= count:
            return self
        gaps = [after[0] - before[1] for before, after in pairwise(self.intervals)]
        largest = heapq.nlargest(count - 1, range(len(gaps)), key=gaps.__getitem__)
        starts = [0, *(index + 1 for index in sorted(largest))]
        ends = [*(start - 1 for start in starts[1:]), len(self.intervals) - 1]
        return Coverage(
            tuple(
                (self.intervals[start][0], self.intervals[end][1])
                for start, end in zip(starts, ends, strict=True)
            )
        )

    def has(self, at: datetime) -> bool:
        """Whether an instant lies in one of them."""
        return any(begin <= at < end for begin, end in self.intervals)
