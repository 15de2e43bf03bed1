"""The key-value store that all mutable metadata lives in.

The interface is narrow on purpose: ordered keys inside a partition, a conditional write and a conditional
removal of one key. Partitions exist by having keys. There are no transactions across keys, and no list of partitions.

Source: design "lakeFS on KV".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Protocol, Self

from dredge.errors import ConflictError, NotFoundError


class KeyNotFoundError(NotFoundError):
    """The partition has no such key."""

    kind: ClassVar[str] = "key_not_found"


class PredicateFailedError(ConflictError):
    """The stored value is not the one that `set_if` or `delete_if` expected; nothing was changed."""

    kind: ClassVar[str] = "predicate_failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value."""

    key: bytes
    value: bytes


class Store(Protocol):
    """A key-value store; may be used from many threads at once, and after a fork.

    A read that begins after a write has ended sees that write or a later one. Keys and values are bytes; a
    key is at least one byte, a value may be empty.
    """

    def get(self, partition: bytes, key: bytes) -> bytes:
        """Read a value; raises KeyNotFoundError."""

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Go through a partition in ascending byte order, from the first key that is `start` or greater.

        Each key that was there from beginning to end comes exactly once, with a value that it had meanwhile.
        Keys written or deleted meanwhile may come or not. The scan holds no lock, and not more than a page in
        memory.
        """

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Write a value, whatever was there."""

    def delete(self, partition: bytes, key: bytes) -> None:
        """Remove a key; it need not exist."""

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        """Write a value if the stored one is `predicate` (None: if the key does not exist).

        Of several calls at once with the same predicate exactly one succeeds, in all threads and processes.

        Raises:
            PredicateFailedError: it is not; nothing was written.
        """

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        """Remove a key if its value is `predicate`.

        Raises:
            PredicateFailedError: it is not, or there is no such key; nothing was removed.
        """

    def close(self) -> None:
        """Let go of files and connections; the store must not be used afterwards."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
