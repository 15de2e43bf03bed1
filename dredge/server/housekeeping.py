"""What a running server does now and then beside its requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Housekeeping:
    """Calls something at an interval, in a thread of its own, until it is closed.

    A call that fails is logged and tried again after the next interval: whatever is done here is only ever
    late, never wrong.

    Args:
        work: what to do.
        interval_seconds: between the end of one call and the next; the first comes after one interval.
    """

    def __init__(self, work: Callable[[], object], interval_seconds: float) -> None:
        self._work = work
        self._interval = interval_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-housekeeping", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish a call under way, and make no other."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self._work()
            except Exception:
                log.exception("housekeeping failed; it is tried again in %.0f s", self._interval)
