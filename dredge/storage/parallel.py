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
