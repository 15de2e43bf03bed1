"""A server's view of the key-value store: every operation passes a door. A scan passes one for each page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Self

from lakefs_embedded.kv import Entry, MemoryKV, Store
from tests.simulation.doors import Doors, answer_lost, not_done

PAGE_KEYS = 50
SCAN_OF_STAGING = "prepare_uncommitted"
"""In the name of the serving actor."""
_FAULTS: dict[str, Any] = {"kv down": not_done("kv"), "kv answer lost": answer_lost("kv")}
_CUT_SHORT: dict[str, Any] = {**_FAULTS, "staging cut short": lambda _deed: []}
"""While a server scans staging, an error of the store ends a branch's rows without a sign (L52)."""
_NOT_CUT: dict[str, Any] = {**_FAULTS, "staging cut short": lambda deed: deed()}


class DoorKV:
    """A store behind a door."""

    def __init__(self, store: Store, doors: Doors) -> None:
        self._store = store
        self._doors = doors

    def get(self, partition: bytes, key: bytes) -> bytes:
        return self._call("get", partition, key, lambda: self._store.get(partition, key))

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        while True:
            page = self._call("scan", partition, start, partial(self._page, partition, start))
            yield from page
            if len(page) < PAGE_KEYS:
                return
            start = page[-1].key + b"\0"

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self._call("set", partition, key, lambda: self._store.set(partition, key, value))

    def delete(self, partition: bytes, key: bytes) -> None:
        self._call("delete", partition, key, lambda: self._store.delete(partition, key))

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        self._call("set_if", partition, key, lambda: self._store.set_if(partition, key, value, predicate))

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        self._call("delete_if", partition, key, lambda: self._store.delete_if(partition, key, predicate))

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def _page(self, partition: bytes, start: bytes) -> list[Entry]:
        return list(islice(self._store.scan(partition, start), PAGE_KEYS))

    def _call[T](self, name: str, partition: bytes, key: bytes, deed: Callable[[], T]) -> T:
        found: T = self._doors.call("kv", name, deed, self._faults(partition), f"{partition!r} {key!r}")
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
        """All values by partition and key."""
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
