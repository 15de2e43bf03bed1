"""What was worked out for one who looked, kept for the next one; of those who ask at once one works."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future


class Kept[V]:
    """Values by key, the last ones that were asked for.

    Args:
        most: how many to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Future[V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Give a value, made where nobody has. An error is raised for all who wait for it, and not kept.

        Args:
            key: says everything that the value depends on.
            make: works it out.
        """
        with self._lock:
            found = self._values.get(key)
            mine: Future[V] = Future()
            if found is None:
                self._values[key] = mine
                while len(self._values) > self._most:
                    self._values.popitem(last=False)
            else:
                self._values.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            mine.set_result(make())
        except BaseException as error:
            with self._lock:
                if self._values.get(key) is mine:
                    del self._values[key]
            mine.set_exception(error)
        return mine.result()
