"""Time: the one place that reads this machine's clock, the store's clock, and intervals of time."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from dredge.errors import RefusedError
from dredge.storage import ObjectWriter, store_clock

type Clock = Callable[[], datetime]

NTP = "Nothing was deleted. Set the clocks right (NTP) and start again."


def check_clocks(store_ahead_seconds: float, seconds_max: float) -> None:
    """Refuse to work when this machine's clock and the store's differ too much: one of them is wrong, and nothing
    tells which.

    Args:
        store_ahead_seconds: the store's clock minus this machine's.
        seconds_max: largest difference, either way.

    Raises:
        RefusedError: they differ by more.
    """
    if abs(store_ahead_seconds) > seconds_max:
        side = "ahead of" if store_ahead_seconds > 0 else "behind"
        raise RefusedError(
            f"the object store's clock is {abs(store_ahead_seconds):.0f} s {side} this machine's, more than"
            f" {seconds_max:.0f} s. Ages of objects cannot be trusted. {NTP}"
        )


def utc_now() -> datetime:
    """Now, by this machine's clock, aware UTC."""
    return datetime.now(UTC)


def running_seconds() -> float:
    """Seconds that go on while the machine sleeps, for "how long ago": unlike `time.monotonic`, a suspended
    machine ages."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


_SECOND = timedelta(seconds=1)


class StoreClock:
    """The store's time, asked at most once a minute: in between, this machine counts the seconds since the answer.

    Like an answer, it is never ahead of the store, and behind it by less than a request and the second that S3 rounds
    down. A machine whose clock was set, or that slept, asks again. The gates of workers, and the watch of their driver,
    do not believe a machine: they call `store_clock`.

    Attributes:
        writer: of the store.

    Args:
        writer: of the store.
        clock: this machine's.
        seconds_max: how old an answer may be.
    """

    def __init__(self, writer: ObjectWriter, clock: Clock = utc_now, seconds_max: float = 60) -> None:
        self.writer = writer
        self._clock = clock
        self._oldest = timedelta(seconds=seconds_max)
        self._answer: tuple[datetime, datetime, float] | None = None
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The store's time, aware UTC."""
        with self._lock:
            if self._answer is not None:
                told, at, second = self._answer
                passed, counted = self._clock() - at, timedelta(seconds=running_seconds() - second)
                if counted <= self._oldest and abs(passed - counted) < _SECOND:
                    return told + max(passed, timedelta())
            told = store_clock(self.writer, "")
            self._answer = told, self._clock(), running_seconds()
            return told


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
