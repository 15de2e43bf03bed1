"""Doing many requests at once while keeping their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor


def ordered_map[T, R](fn: Callable[[T], R], items: Sequence[T], concurrency: int) -> Iterator[R]:
    """Apply `fn` in threads and yield the results in the order of `items`.

    At most `concurrency` results exist beyond the one the caller holds. The first error ends the iteration;
    what has not begun by then never does.
    """
    if concurrency <= 1 or len(items) <= 1:
        yield from map(fn, items)
        return
    with ThreadPoolExecutor(min(concurrency, len(items)), thread_name_prefix="dredge-storage") as pool:
        running: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(running) >= concurrency:
                    yield running.popleft().result()
                running.append(pool.submit(fn, item))
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


AHEAD_BYTES = 128 << 20
_AHEAD_MAX = 64
"""Where a request takes 40 ms, so many objects of a few KiB keep a connection of 10 MB/s busy."""


def get_ahead(
    get: Callable[[str], bytes], keys: Sequence[str], concurrency: int
) -> Iterator[tuple[str, bytes]]:
    """Read objects in threads and yield them in the order of `keys`.

    Args:
        get: reads one.
        keys: of the objects.
        concurrency: requests at once, and objects beyond the one that the caller holds. Where objects turn out to be
            small there are up to 64, as long as that many of the mean size take `AHEAD_BYTES` at most.
    """
    if len(keys) <= concurrency or concurrency <= 1:
        yield from zip(keys, ordered_map(get, keys, concurrency), strict=True)
        return
    sizes = count = 0
    with ThreadPoolExecutor(_AHEAD_MAX, thread_name_prefix="dredge-storage") as pool:
        running: deque[tuple[str, Future[bytes]]] = deque()
        waiting = iter(keys)
        try:
            while True:
                small = count >= concurrency and AHEAD_BYTES // max(1, sizes // count)
                window = max(concurrency, min(_AHEAD_MAX, small))
                while len(running) < window and (key := next(waiting, None)) is not None:
                    running.append((key, pool.submit(get, key)))
                if not running:
                    return
                key, future = running.popleft()
                data = future.result()
                sizes, count = sizes + len(data), count + 1
                yield key, data
        finally:
            for _, future in running:
                future.cancel()
