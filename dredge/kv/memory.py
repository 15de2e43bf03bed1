"""A store in the memory of this process, for tests and experiments."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from dredge.kv.model import Entry, KeyNotFoundError, PredicateFailedError

_PAGE_KEYS = 256


@dataclass(slots=True)
class _Partition:
    values: dict[bytes, bytes] = field(default_factory=dict)
    order: list[bytes] = field(default_factory=list)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self.order, key)
        self.values[key] = value


class MemoryKV:
    """Partitions as dicts, each with a sorted list of its keys."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[bytes, _Partition] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def get(self, partition: bytes, key: bytes) -> bytes:
        """Read a value; raises KeyNotFoundError."""
        with self._lock:
            try:
                return self._partitions[partition].values[key]
            except KeyError:
                raise KeyNotFoundError(f"no key {key!r} in partition {partition!r}") from None

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Iterate over a partition in byte order of the keys."""
        while page := self._page(partition, start):
            yield from page
            start = page[-1].key + b"\0"

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Write a value unconditionally."""
        with self._lock:
            self._put(partition, key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        """Delete a key; it need not exist."""
        with self._lock:
            self._remove(partition, key)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        """Write a value if the stored one equals `predicate` (None: if the key does not exist)."""
        with self._lock:
            self._expect(partition, key, predicate)
            self._put(partition, key, value)

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        """Delete a key if its value equals `predicate`."""
        with self._lock:
            self._expect(partition, key, predicate)
            self._remove(partition, key)

    def close(self) -> None:
        """Do nothing; the values stay."""

    def _expect(self, partition: bytes, key: bytes, predicate: bytes | None) -> None:
        found = self._partitions.get(partition)
        if (found.values.get(key) if found else None) != predicate:
            raise PredicateFailedError(f"key {key!r} of {partition!r} has another value; nothing was changed")

    def _remove(self, partition: bytes, key: bytes) -> None:
        found = self._partitions.get(partition)
        if found is None or found.values.pop(key, None) is None:
            return
        del found.order[bisect_left(found.order, key)]
        if not found.order:
            del self._partitions[partition]

    def _put(self, partition: bytes, key: bytes, value: bytes) -> None:
        self._partitions.setdefault(partition, _Partition()).put(bytes(key), bytes(value))

    def _page(self, partition: bytes, start: bytes) -> list[Entry]:
        with self._lock:
            found = self._partitions.get(partition)
            if found is None:
                return []
            at = bisect_left(found.order, start)
            return [Entry(key, found.values[key]) for key in found.order[at : at + _PAGE_KEYS]]
