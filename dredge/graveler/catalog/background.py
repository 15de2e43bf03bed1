"""Work that goes on after the call that started it has returned."""

from __future__ import annotations

import contextvars
import logging
import threading
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

    def join(self) -> None:
        """Wait for the work that has been started so far."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()
