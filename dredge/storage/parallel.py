"""Parallel requests with results in order, as many at once as keep a server busy.

Without latency, all but a few threads only wait for the interpreter; at 40 ms a request, a few leave the server idle.
So each long call measures answers per second in rounds, and changes the number of requests in flight (`InFlight`).
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

# Connections that clients keep.
MOST = 128
_LEAST = 4
# Fewer answers say nothing about a rate.
_ROUND = 32
# Part of the added requests that have to bring answers, and part of the answers that fewer requests have to keep.
_GAIN, _LOSS = 0.2, 0.9
# The processor is busy, or the server near: more requests would bring no more answers.
_BUSY, _NEAR_SECONDS = 0.8, 0.005
# Requests to a near server that a thread makes in a row: handing over each alone takes half as long as the request.
_IN_A_ROW = 8
_REFUSED_ONCE_SECONDS = 1.0


class InFlight:
    """The number of requests of this process to a kind of server in flight; thread-safe.

    A long call raises the number while the processor waits for a distant server, if answers a second grow with it.
    Otherwise it halves the number while answers a second fall by less than a tenth. A refusal (429, 503, SlowDown)
    halves it; then a round of answers adds one. `clock, used`: seconds of time, and of this process's processor."""

    def __init__(
        self,
        size: int = 16,
        clock: Callable[[], float] = lambda: time.perf_counter(),
        used: Callable[[], float] = lambda: time.process_time(),
    ) -> None:
        self.size = size
        self.is_near = False
        self.refusals = 0
        self.clock, self.used = clock, used
        self._refused_at = float("-inf")
        self._lock = threading.Lock()

    def refused(self) -> None:
        """Halve the number; the refusals of a second count once."""
        with self._lock:
            now = self.clock()
            self.refusals += 1
            if now - self._refused_at >= _REFUSED_ONCE_SECONDS:
                self.size = max(1, self.size // 2)
                self._refused_at = now

    def set(self, size: int, refusals: int) -> bool:
        """Set the number, unless there were more refusals meanwhile; whether it was set."""
        with self._lock:
            if self.refusals == refusals:
                self.size = size
            return self.refusals == refusals


# Of object stores. Other servers have their own.
STORE = InFlight()


class _Rounds:
    """The rounds of answers of one call."""

    def __init__(self, flight: InFlight) -> None:
        self._flight = flight
        self._size = self._left = 0
        self._least = self._clock = self._used = 0.0
        self._filling = False
        self._plan = self._change()
        next(self._plan)
        self._begin(filling=False)

    def answered(self, seconds: float) -> None:
        """Count an answer and its duration; at the end of a round, change the number in flight."""
        self._least = min(self._least, seconds)
        self._left -= 1
        if self._left:
            return
        if self._filling:  # in this round, requests of the number before were answered
            self._begin(filling=False)
            return
        flight, answers = self._flight, max(_ROUND, self._size)
        spent = flight.clock() - self._clock
        is_far = spent > 0 and self._least >= _NEAR_SECONDS
        flight.is_near = not is_far
        busy = (flight.used() - self._used) / spent if is_far else 1.0
        self._plan.send((answers / spent if spent > 0 else 0.0, busy))
        self._begin(filling=flight.size != self._size)

    def _begin(self, filling: bool) -> None:
        self._size, self._filling = self._flight.size, filling
        self._left, self._least = max(_ROUND, self._size), float("inf")
        self._clock, self._used = self._flight.clock(), self._flight.used()

    def _change(self) -> Generator[None, tuple[float, float]]:
        """Take rate and use of the processor of each round; change the number after it."""
        flight, refusals = self._flight, self._flight.refusals
        rate, busy = yield
        grown = False
        while not refusals and busy < _BUSY and (size := flight.size) < MOST:
            larger = min(MOST, max(size + 1, int(size / max(busy, 0.1))))
            if not flight.set(larger, refusals):
                break
            more, busy = yield
            if more < rate * (1 + _GAIN * (larger / size - 1)):
                flight.set(size, refusals)
                break
            rate, grown = more, True
        while not refusals and not grown and (size := flight.size) > _LEAST:
            if not flight.set(max(_LEAST, size // 2), refusals):
                break
            less, _ = yield
            if less < _LOSS * rate:
                flight.set(size, refusals)
                break
        while True:
            yield
            if refusals := flight.refusals:
                flight.set(min(MOST, flight.size + 1), refusals)


def ordered_map[T, R](
    fn: Callable[[T], R], items: Sequence[T], concurrency: int | InFlight = STORE
) -> Iterator[R]:
    """Apply `fn` in threads and yield the results in the order of `items`.

    At most `concurrency` results, of a near server as many rows of them, are in memory in addition to the current one.
    The first error ends the iteration, and items that have not started are dropped.
    """
    if isinstance(concurrency, InFlight):
        return _ordered(fn, items, concurrency)
    return _ordered(fn, items, InFlight(concurrency), measured=False)


# Threads are kept: to start one takes as long as to hand over four calls. As pools of one thread, because the
# interpreter ends their threads at exit.
_idle: list[ThreadPoolExecutor] = []
os.register_at_fork(after_in_child=_idle.clear)  # a child process has no other threads


class CallThreads:
    """Starts each call at once, in its own thread; all calls have ended after the block, also after an error."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._threads: list[ThreadPoolExecutor] = []
        self._free: SimpleQueue[ThreadPoolExecutor] = SimpleQueue()
        self._failed = self._ended = False

    def submit[**P, R](self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start a call."""
        if self._ended:
            raise RuntimeError("the block of these calls has ended")
        free = self._free

        def call() -> R:
            try:
                return fn(*args, **kwargs)
            finally:
                free.put(thread)

        try:
            thread = self._take()
            return thread.submit(call)
        except BaseException:
            self._failed = True  # the call may not be started
            raise

    def _take(self) -> ThreadPoolExecutor:
        with suppress(Empty):
            return self._free.get_nowait()
        try:
            thread = _idle.pop()
        except IndexError:
            thread = ThreadPoolExecutor(1, thread_name_prefix="dredge-call")
        self._threads.append(thread)
        return thread

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if kind is None and not self._failed and self._process == os.getpid():
            for _ in self._threads:
                self._free.get()
            _idle.extend(self._threads[: max(0, MOST - len(_idle))])
        else:  # after an interrupt it is unknown which calls are started
            for thread in self._threads:
                thread.shutdown()


class Ask:
    """Starts calls in threads."""

    def __init__(self, threads: CallThreads) -> None:
        self._threads = threads

    def __call__[**P, R](self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start a call."""
        return self._threads.submit(fn, *args, **kwargs)


@contextmanager
def at_once() -> Iterator[Ask]:
    """Yield a function that starts independent requests in parallel; all have ended after the block, also after an
    error."""
    with CallThreads() as threads:
        yield Ask(threads)


AHEAD_BYTES = 64 << 20
# Number of objects of unknown length to read at once.
_UNKNOWN = 16


def get_ahead(
    get: Callable[[str], bytes], keys: Sequence[str], flight: InFlight = STORE
) -> Iterator[tuple[str, bytes]]:
    """Read objects in threads and yield them in the order of `keys`; see `map_ahead`."""
    return zip(keys, map_ahead(get, keys, len, flight), strict=True)


def map_ahead[T, R](
    fn: Callable[[T], R], items: Sequence[T], size: Callable[[R], int], flight: InFlight = STORE
) -> Iterator[R]:
    """As `ordered_map`, with at most as many results in memory as fit into `AHEAD_BYTES` by their mean size."""
    sizes = count = 0

    def fitting() -> int:
        return max(2, min(MOST, AHEAD_BYTES * count // max(1, sizes))) if count >= _UNKNOWN else _UNKNOWN

    for found in _ordered(fn, items, flight, fitting):
        sizes, count = sizes + size(found), count + 1
        yield found


def _ordered[T, R](
    fn: Callable[[T], R],
    items: Sequence[T],
    flight: InFlight,
    fitting: Callable[[], int] = lambda: MOST,
    measured: bool = True,
) -> Iterator[R]:
    if len(items) <= 1 or (flight.size <= 1 and not measured):
        yield from map(fn, items)
        return

    ended = False

    def ask(row: Sequence[T]) -> tuple[list[tuple[R, float]], BaseException | None]:
        found: list[tuple[R, float]] = []
        try:
            for item in row:
                if ended:
                    break
                begun = flight.clock()
                found.append((fn(item), flight.clock() - begun))
        except BaseException as error:
            return found, error
        return found, None

    with CallThreads() as threads:
        running: deque[Future[tuple[list[tuple[R, float]], BaseException | None]]] = deque()
        rounds = _Rounds(flight)
        at = 0
        try:
            while at < len(items) or running:
                most = min(flight.size, fitting())
                while at < len(items) and len(running) < most:
                    row = 1
                    if flight.is_near:
                        row = max(1, min(_IN_A_ROW, fitting() // most, (len(items) - at) // most))
                    running.append(threads.submit(ask, items[at : at + row]))
                    at += row
                found, error = running.popleft().result()
                for result, seconds in found:
                    yield result
                    if measured and at < len(items) and most == flight.size:
                        rounds.answered(seconds)
                if error is not None:
                    raise error
        finally:
            ended = True
            for future in running:
                future.cancel()
