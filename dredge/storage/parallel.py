"""Parallel requests with results in order."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

_CALLS_AT_ONCE = 16


def ordered_map[T, R](fn: Callable[[T], R], items: Sequence[T], concurrency: int) -> Iterator[R]:
    """Apply `fn` in threads and yield the results in the order of `items`.

    At most `concurrency` results are in memory in addition to the current one. The first error ends the iteration, and
    items that have not started are dropped.
    """
    return _ordered(fn, items, concurrency, lambda: concurrency)


class Ask:
    """Starts calls in the threads of a pool."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def __call__[**P, R](self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start a call."""
        return self._pool.submit(fn, *args, **kwargs)


@contextmanager
def at_once() -> Iterator[Ask]:
    """Yield a function that starts independent requests in parallel; all have ended after the block, also after an
    error.
    """
    who = threading.current_thread().name
    with ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix=f"{who}-asks") as pool:
        yield Ask(pool)


AHEAD_BYTES = 128 << 20
# A mean of small objects says nothing about larger ones behind them, so the number is limited as well.
_AHEAD_MAX = 128


def get_ahead(
    get: Callable[[str], bytes], keys: Sequence[str], concurrency: int
) -> Iterator[tuple[str, bytes]]:
    """Read objects in threads and yield them in the order of `keys`.

    Up to `concurrency` objects are in memory in addition to the current one; up to 128 small objects, if so many of
    their mean size fit into `AHEAD_BYTES`.
    """
    return zip(keys, map_ahead(get, keys, concurrency, len), strict=True)


def map_ahead[T, R](
    fn: Callable[[T], R], items: Sequence[T], concurrency: int, size: Callable[[R], int]
) -> Iterator[R]:
    """As `ordered_map`, with as many small results in memory as fit into `AHEAD_BYTES` by their mean size."""
    sizes = count = 0

    def window() -> int:
        fitting = AHEAD_BYTES // max(1, sizes // count) if count >= concurrency else 0
        return max(concurrency, min(_AHEAD_MAX, fitting))

    at_most = max(concurrency, _AHEAD_MAX) if concurrency > 1 else 1
    for found in _ordered(fn, items, at_most, window):
        sizes, count = sizes + size(found), count + 1
        yield found


def _ordered[T, R](
    fn: Callable[[T], R], items: Sequence[T], at_most: int, window: Callable[[], int]
) -> Iterator[R]:
    if at_most <= 1 or len(items) <= 1:
        yield from map(fn, items)
        return
    with ThreadPoolExecutor(min(at_most, len(items)), thread_name_prefix="dredge-storage") as pool:
        running: deque[Future[R]] = deque()
        try:
            for item in items:
                while len(running) >= window():
                    yield running.popleft().result()
                running.append(pool.submit(fn, item))
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
