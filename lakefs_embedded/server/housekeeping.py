"""Periodic background work of a running server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Housekeeping:
    """Calls a function at an interval (after a first pause), in its own thread, until closed.

    A failed call is logged and repeated after the interval.
    """

    def __init__(self, work: Callable[[], object], interval_seconds: float) -> None:
        self._work = work
        self._interval = interval_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-housekeeping", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for a call in progress, and make no more."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self._work()
            except Exception:
                log.exception("housekeeping failed; next attempt in %.0f s", self._interval)
