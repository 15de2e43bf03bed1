"""The interface of the key-value store for all mutable metadata, and a store in memory.

It is narrow on purpose: keys ordered within a partition, and conditional writes and deletes of single keys. A
partition exists while it has keys. There are no transactions across keys and no listing of partitions.

Source: design "lakeFS on KV".
"""

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

from dredge.errors import ConflictError, NotFoundError
from dredge.kv.rows import Entry


class KeyNotFoundError(NotFoundError):
    """The partition has no such key."""

    kind: ClassVar[str] = "key_not_found"


class PredicateFailedError(ConflictError):
    """The stored value differs from the predicate of `set_if` or `delete_if`; nothing was changed."""

    kind: ClassVar[str] = "predicate_failed"


class Store(Protocol):
    """A key-value store; thread-safe, and usable after a fork.

    A read that begins after a write has returned sees that write or a later one. Keys have at least one byte; values
    may be empty.
    """

    def get(self, partition: bytes, key: bytes) -> bytes:
        """Read a value; raises KeyNotFoundError."""

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Iterate over a partition in ascending byte order of the keys, starting at `start` (inclusive).

        A key that exists throughout the scan is yielded exactly once, with a value it had during the scan. A key
        written or deleted meanwhile may be yielded or not. The scan holds no lock, and at most one page in memory.
        """

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Write a value."""

    def delete(self, partition: bytes, key: bytes) -> None:
        """Delete a key, if it exists."""

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        """Write a value if the stored one equals `predicate` (None: there is none), or raise PredicateFailedError.

        Of concurrent calls with the same predicate exactly one succeeds, across threads and processes.
        """

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        """Delete a key if its value equals `predicate`, or raise PredicateFailedError."""

    def close(self) -> None:
        """Close files and connections; the store must not be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_PAGE_KEYS = 256


@dataclass(slots=True)
class _Partition:
    values: dict[bytes, bytes] = field(default_factory=dict)
    order: list[bytes] = field(default_factory=list)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self.order, key)
        self.values[key] = value


class MemoryKV(Store):
    """A store in memory, for tests and experiments: partitions as dicts, each with a sorted list of its keys."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[bytes, _Partition] = {}

    def get(self, partition: bytes, key: bytes) -> bytes:
        """See `Store.get`."""
        with self._lock:
            try:
                return self._partitions[partition].values[key]
            except KeyError:
                raise KeyNotFoundError(f"no key {key!r} in partition {partition!r}") from None

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """See `Store.scan`."""
        while page := self._page(partition, start):
            yield from page
            start = page[-1].key + b"\0"

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        """See `Store.set`."""
        with self._lock:
            self._put(partition, key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        """See `Store.delete`."""
        with self._lock:
            self._remove(partition, key)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        """See `Store.set_if`."""
        with self._lock:
            self._expect(partition, key, predicate)
            self._put(partition, key, value)

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        """See `Store.delete_if`."""
        with self._lock:
            self._expect(partition, key, predicate)
            self._remove(partition, key)

    def close(self) -> None:
        """See `Store.close`."""

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
