"""The interface of the key-value store that holds all mutable metadata.

It is narrow on purpose: keys ordered within a partition, and conditional writes and deletes of single keys. A partition
exists while it has keys. There are no transactions across keys and no listing of partitions.

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
    """The stored value is not the one that `set_if` or `delete_if` expects; nothing was changed."""

    kind: ClassVar[str] = "predicate_failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value."""

    key: bytes
    value: bytes


class Store(Protocol):
    """A key-value store; thread-safe, and usable after a fork.

    A read that begins after a write has returned sees that write or a later one. Keys have at least one byte; values
    may be empty.
    """

    def get(self, partition: bytes, key: bytes) -> bytes:
        """Read a value; raises KeyNotFoundError."""

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Iterate over a partition in ascending byte order of the keys, starting at `start` (inclusive).

        A key that exists throughout the scan is yielded exactly once, with a value that it had during the scan. A key
        written or deleted meanwhile may be yielded or not. The scan holds no lock, and at most one page in memory.
        """

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Write a value unconditionally."""

    def delete(self, partition: bytes, key: bytes) -> None:
        """Delete a key; it need not exist."""

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        """Write a value if the stored one equals `predicate`; None requires that the key does not exist.

        Of concurrent calls with the same predicate exactly one succeeds, across threads and processes.

        Raises:
            PredicateFailedError: the stored value differs; nothing was written.
        """

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        """Delete a key if its value equals `predicate`.

        Raises:
            PredicateFailedError: the value differs or the key does not exist; nothing was deleted.
        """

    def close(self) -> None:
        """Close files and connections; the store must not be used afterwards."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
