"""Look-ups shared by many threads: the place of a running look-up is handed over without a gap."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from lakefs_embedded.refs.amortized import AmortizedReads


class HeldLock:
    """A lock whose holder-to-be can be kept waiting: the thread that `held` names stops before it acquires."""

    def __init__(self) -> None:
        self.inner = threading.Lock()
        self.held: threading.Thread | None = None
        self.arrived, self.go_on = threading.Event(), threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread() is self.held:
            self.held = None
            self.arrived.set()
            assert self.go_on.wait(10)
        self.inner.acquire()

    def __exit__(self, *exc: object) -> None:
        self.inner.release()


def test_a_leader_that_is_late_to_clear_its_place_finds_it_taken() -> None:
    lock = HeldLock()
    reading, waiting = threading.Event(), threading.Event()

    def read(key: str) -> str:
        if not reading.is_set():
            reading.set()
            assert waiting.wait(10)
            lock.held = threading.current_thread()  # stop here once the result is out, before clearing up
        return key

    reads: AmortizedReads[str, str] = AmortizedReads(read)
    reads._lock = lock  # type: ignore[assignment]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(reads.get, "k")
        assert reading.wait(10)
        second = pool.submit(reads.get, "k")
        while "k" not in reads._next:
            pass
        waiting.set()
        assert lock.arrived.wait(10)
        assert second.result(10) == "k"
        lock.go_on.set()
        assert first.result(10) == "k"
    assert (reads._running, reads._next) == ({}, {})
    assert reads.get("k") == "k"
