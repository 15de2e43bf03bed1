"""Amortised reads: requests for the same key share one look-up.

A request may only share a look-up begun after the request, or it could miss an earlier write. So one look-up runs,
and all later requests share the next one.

Source: design "lakeFS on KV", caching branch pointers and amortized reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait


class AmortizedReads[K: Hashable, T]:
    """Runs look-ups, one at a time for each key; errors of `read` are raised in all requests sharing it."""

    def __init__(self, read: Callable[[K], T]) -> None:
        self._read = read
        self._running: dict[K, Future[T]] = {}
        self._next: dict[K, Future[T]] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> T:
        """Look a key up; the look-up begins after this call does."""
        before: Future[T] | None
        with self._lock:
            before = self._running.get(key)
            shared = self._next.get(key)
            if before is None:
                mine = self._running[key] = Future()
            elif shared is None:
                mine = self._next[key] = Future()
        if before is not None and shared is not None:
            return shared.result()
        if before is not None:
            wait([before])
            with self._lock:
                self._running[key] = self._next.pop(key)
        return self._lead(key, mine)

    def _lead(self, key: K, mine: Future[T]) -> T:
        try:
            mine.set_result(self._read(key))
        except BaseException as error:  # raised in all requests sharing the look-up
            mine.set_exception(error)
        with self._lock:
            # A leader that waited takes the place, and may have done so already: then it is not ours to clear.
            if key not in self._next and self._running.get(key) is mine:
                del self._running[key]
        return mine.result()
