"""This machine's clock, the store's clock, and intervals of time. No other module reads the machine's clock."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from dredge.errors import RefusedError
from dredge.storage import ObjectWriter, store_clock

type Clock = Callable[[], datetime]

CLOCK_SKEW_SECONDS_MAX = 300.0
NTP = "Nothing was deleted. Set the clocks right (NTP) and start again."


def check_clocks(store_ahead_seconds: float, seconds_max: float) -> None:
    """Refuse to continue if the clocks of this machine and of the store differ too much. `store_ahead_seconds`: the
    store's clock minus this machine's. `seconds_max`: largest difference, in both directions. Raises RefusedError: the
    difference is larger."""
    if abs(store_ahead_seconds) > seconds_max:
        side = "ahead of" if store_ahead_seconds > 0 else "behind"
        raise RefusedError(
            f"the object store's clock is {abs(store_ahead_seconds):.0f} s {side} this machine's, more than"
            f" {seconds_max:.0f} s. Ages of objects cannot be trusted. {NTP}"
        )


def utc_now() -> datetime:
    """Return this machine's time, aware UTC."""
    return datetime.now(UTC)


def running_seconds() -> float:
    """Return a monotonic time in seconds that also counts a suspended machine, unlike `time.monotonic`."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


_SECOND = timedelta(seconds=1)


class StoreClock:
    """The store's time, requested at most once in `seconds_max`; in between, this machine counts the seconds.

    It is never ahead of the store, and behind it by less than a request and the second that S3 rounds down. After a
    change of this machine's clock, or a suspension, the store is asked again. Gates of workers and the watch of their
    driver call `store_clock` instead: they do not rely on this machine.
    """

    def __init__(self, writer: ObjectWriter, clock: Clock = utc_now, seconds_max: float = 60) -> None:
        self.writer = writer
        self._clock = clock
        self._oldest = timedelta(seconds=seconds_max)
        self._answer: tuple[datetime, datetime, float] | None = None
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the store's time, aware UTC."""
        with self._lock:
            if self._answer is not None:
                answer, at, second = self._answer
                passed, counted = self._clock() - at, timedelta(seconds=running_seconds() - second)
                if counted <= self._oldest and abs(passed - counted) < _SECOND:
                    return answer + max(passed, timedelta())
            answer = store_clock(self.writer, "")
            self._answer = answer, self._clock(), running_seconds()
            return answer


BEGINNING = datetime(1, 1, 1, tzinfo=UTC)

END = datetime(9999, 12, 31, tzinfo=UTC)


class Coverage(Struct, frozen=True):
    """Half-open intervals of time, sorted and disjoint; for the times in names of slices. `intervals`: start and end of
    each, aware UTC."""

    intervals: tuple[tuple[datetime, datetime], ...] = ()

    @classmethod
    def of(cls, intervals: Iterable[tuple[datetime, datetime]]) -> Coverage:
        """Unite intervals; empty ones are dropped."""
        united: list[tuple[datetime, datetime]] = []
        for begin, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
            if united and begin <= united[-1][1]:
                united[-1] = (united[-1][0], max(united[-1][1], end))
            else:
                united.append((begin, end))
        return cls(tuple(united))

    def with_interval(self, begin: datetime, end: datetime) -> Coverage:
        """Return these intervals and another one."""
        return Coverage.of([*self.intervals, (begin, end)])

    def at_most(self, count: int) -> Coverage:
        """Return at most `count` intervals around these: the smallest gaps are filled."""
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
        """Whether an instant is in an interval."""
        return any(begin <= at < end for begin, end in self.intervals)


def compare_store(store: StoreClock, clock: Clock, seconds_max: float) -> tuple[datetime, float]:
    """Return the store's time, and its difference to this machine's in seconds. Raises RefusedError if they differ too
    much."""
    before = clock()
    now = store.now()
    ahead = (now - before).total_seconds()
    check_clocks(ahead, seconds_max)
    return now, ahead
