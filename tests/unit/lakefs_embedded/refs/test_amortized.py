from __future__ import annotations

import threading

from lakefs_embedded.refs.amortized import AmortizedReads

WAIT = 10


class SlowSource:
    """A value whose reads stop in the middle until they are let go, one by one."""

    def __init__(self) -> None:
        self.value = 0
        self.reads = 0
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def read(self, _key: str) -> int:
        self.reads += 1
        value = self.value
        self.began.release()
        assert self.go.acquire(timeout=WAIT)
        if value < 0:
            raise ValueError(value)
        return value


def start(reads: AmortizedReads[str, int], results: list[int | Exception]) -> threading.Thread:
    def run() -> None:
        try:
            results.append(reads.get("key"))
        except ValueError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for_queue(reads: AmortizedReads[str, int]) -> None:
    for _ in range(1000):
        with reads._lock:
            if "key" in reads._next:
                return
        threading.Event().wait(0.005)
    raise AssertionError("nobody waits")


def test_a_request_never_shares_a_look_up_that_began_before_it() -> None:
    source = SlowSource()
    reads = AmortizedReads(source.read)
    early: list[int | Exception] = []
    late: list[int | Exception] = []
    threads = [start(reads, early)]
    assert source.began.acquire(timeout=WAIT)
    source.value = 1  # a write that ends before the later requests are made
    threads += [start(reads, late) for _ in range(5)]
    wait_for_queue(reads)
    threading.Event().wait(0.05)  # until all have come
    source.go.release()
    assert source.began.acquire(timeout=WAIT)
    source.go.release()
    for thread in threads:
        thread.join(WAIT)
    assert (early, late) == ([0], [1] * 5)
    assert source.reads == 2
    assert not reads._running
    assert not reads._next
