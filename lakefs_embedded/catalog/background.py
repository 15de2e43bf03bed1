"""Work that goes on after the call that started it has returned."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Background:
    """Runs work in threads of its own.

    Args:
        enabled: False runs the work before `start` returns, and lets its errors through.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def start(self, work: Callable[[], None]) -> None:
        """Start work; in the background an error is logged. The work keeps the caller's context variables."""
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
        """Wait for the work that has been started so far.

        Args:
            seconds: how long to wait in all; None waits until it is done.

        Returns:
            Whether it is done.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
