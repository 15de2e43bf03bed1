"""Background work of API calls."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Background:
    """Runs work in threads, or (not `enabled`) before `start` returns, which then raises its errors."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def start(self, work: Callable[[], None]) -> None:
        """Start work; in the background an error is logged. The caller's context variables are kept."""
        if not self._enabled:
            work()
            return

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("background work failed")
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(run,), name="catalog-task", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the work started so far, at most `seconds` (None: no limit). Returns whether it is done."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
