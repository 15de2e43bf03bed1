"""A server's view of the key-value store: every operation passes a door. A scan passes one for each page."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from lakefs_embedded.kv import Entry, MemoryKV, Store
from tests.simulation.doors import Doors, answer_lost, not_done
from tests.support.faulty import ForwardingStore, Operation

PAGE_KEYS = 50
SCAN_OF_STAGING = "prepare_uncommitted"
"""In the name of the serving actor."""
_FAULTS: dict[str, Any] = {"kv down": not_done("kv"), "kv answer lost": answer_lost("kv")}
_CUT_SHORT: dict[str, Any] = {**_FAULTS, "staging cut short": lambda _deed: []}
"""While a server scans staging, an error of the store ends a branch's rows without a sign (L52)."""
_NOT_CUT: dict[str, Any] = {**_FAULTS, "staging cut short": lambda deed: deed()}


class DoorKV(ForwardingStore):
    def __init__(self, store: Store, doors: Doors) -> None:
        super().__init__(store)
        self._doors = doors

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        while True:
            page = self._do(Operation("scan", partition, start), partial(self._page, partition, start))
            yield from page
            if len(page) < PAGE_KEYS:
                return
            start = page[-1].key + b"\0"

    def _page(self, partition: bytes, start: bytes) -> list[Entry]:
        return list(islice(self._store.scan(partition, start), PAGE_KEYS))

    def _do[T](self, operation: Operation, deed: Callable[[], T]) -> T:
        partition, what = operation.partition, f"{operation.partition!r} {operation.key!r}"
        found: T = self._doors.call("kv", operation.name, deed, self._faults(partition), what)
        return found

    def _faults(self, partition: bytes) -> dict[str, Any]:
        current = self._doors.scheduler.current
        scans = current is not None and SCAN_OF_STAGING in current.name and b":" in partition
        return _CUT_SHORT if scans else _NOT_CUT


class WatchedKV(MemoryKV):
    """The shared store itself; reports changes."""

    def __init__(self) -> None:
        super().__init__()
        self.on_change: Callable[[bytes, bytes, bytes | None], None] = lambda _partition, _key, _value: None

    def rows(self) -> dict[tuple[bytes, bytes], bytes]:
        return {
            (partition, key): value
            for partition, found in self._partitions.items()
            for key, value in found.values.items()
        }

    def put_back(
        self,
        rows: Mapping[tuple[bytes, bytes], bytes],
        among: Callable[[bytes], bool] = lambda _partition: True,
    ) -> None:
        for place in [place for place in self.rows() if place not in rows and among(place[0])]:
            self._remove(*place)
        now = self.rows()
        for place, value in rows.items():
            if now.get(place) != value and among(place[0]):
                self._put(*place, value)

    def _put(self, partition: bytes, key: bytes, value: bytes) -> None:
        super()._put(partition, key, value)
        self.on_change(partition, key, value)

    def _remove(self, partition: bytes, key: bytes) -> None:
        super()._remove(partition, key)
        self.on_change(partition, key, None)
