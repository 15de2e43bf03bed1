"""How fast to delete: as fast as the store takes it, half as fast when it complains, then slowly up again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class AdaptiveRate:
    """A limit in keys a second, shared by the threads of one deleter.

    There is no limit until the store first throttles. Then the limit becomes half of what was just reached,
    is halved again by each further complaint (but not by the several that one burst brings), and grows by a
    twentieth every second without one.

    Args:
        floor: keys a second that are always allowed.
        monotonic: a clock in seconds.
        sleep: waits for seconds.
    """

    GROWTH_PER_SECOND = 0.05
    BURST_SECONDS = 1.0

    def __init__(
        self,
        floor: float = 50.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._floor = floor
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._limit: float | None = None
        self._free_at = 0.0
        self._changed_at = float("-inf")
        self._window_start = monotonic()
        self._window_keys = 0

    @property
    def limit(self) -> float | None:
        """Keys a second allowed at present; None while there is no limit."""
        return self._limit

    def acquire(self, keys: int) -> None:
        """Wait until `keys` more keys may be sent."""
        with self._lock:
            now = self._monotonic()
            self._grow(now)
            self._count(now, keys)
            if self._limit is None:
                return
            start = max(now, self._free_at)
            self._free_at = start + keys / self._limit
        if start > now:
            self._sleep(start - now)

    def throttled(self) -> None:
        """Note that the store complained about its load."""
        with self._lock:
            now = self._monotonic()
            if now - self._changed_at < self.BURST_SECONDS and self._limit is not None:
                return
            reached = self._window_keys / max(now - self._window_start, 0.1)
            present = reached if self._limit is None else self._limit
            self._limit = max(self._floor, present / 2)
            self._changed_at = now

    def _grow(self, now: float) -> None:
        if self._limit is None:
            return
        quiet = now - self._changed_at
        if quiet >= 1.0:
            self._limit *= (1 + self.GROWTH_PER_SECOND) ** min(quiet, 10.0)
            self._changed_at = now

    def _count(self, now: float, keys: int) -> None:
        if now - self._window_start > 5.0:
            self._window_start, self._window_keys = now, 0
        self._window_keys += keys
