"""Waits for looks of the driver while workers delete; a thread of its own makes them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.memory_store import MemoryStore
from tests.support.stand_ins import standing_in


@contextmanager
def driver_looks() -> Iterator[Callable[[], None]]:
    """Yield a function that returns after a whole look that began after its call, or when a look shut the gate."""
    looks: list[str] = []  # the key of each
    shut = set[str]()
    changed = threading.Condition()

    def write(honest, store, key, *rest, **more):  # type: ignore[no-untyped-def]
        honest(store, key, *rest, **more)
        if "/_watch/" in key:
            with changed:
                if key.endswith(".shut"):
                    shut.add(key.removesuffix(".shut"))
                else:
                    looks.append(key)
                changed.notify_all()

    def wait() -> None:
        with changed:
            enough = len(looks) + 2  # the next one may have begun before
            assert changed.wait_for(lambda: len(looks) >= enough or looks[-1] in shut, 60)

    with standing_in(MemoryStore.write, write):
        yield wait
