"""A key-value store with failures or callbacks at chosen operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from lakefs_embedded.kv import Entry, Store


class CrashError(BaseException):
    """The process has died: caught only by the test."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call on the store."""

    name: str
    partition: bytes
    key: bytes

    @property
    def writes(self) -> bool:
        """Whether it changes the store."""
        return self.name in ("set", "set_if", "delete", "delete_if")


@dataclass
class WatchedStore:
    """Calls `before` and `after` around every operation; either may raise.

    An error of `before` replaces the operation; an error of `after` follows a finished operation.
    """

    store: Store
    before: Callable[[Operation], None] = lambda _: None
    after: Callable[[Operation], None] = lambda _: None
    done: list[Operation] = field(default_factory=list)

    def get(self, partition: bytes, key: bytes) -> bytes:
        with self._watch("get", partition, key):
            return self.store.get(partition, key)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        with self._watch("scan", partition, start):
            return self.store.scan(partition, start)

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        with self._watch("set", partition, key):
            self.store.set(partition, key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        with self._watch("delete", partition, key):
            self.store.delete(partition, key)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        with self._watch("set_if", partition, key):
            self.store.set_if(partition, key, value, predicate)

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        with self._watch("delete_if", partition, key):
            self.store.delete_if(partition, key, predicate)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def _watch(self, name: str, partition: bytes, key: bytes) -> _Watch:
        return _Watch(self, Operation(name, partition, key))


@dataclass
class _Watch:
    owner: WatchedStore
    operation: Operation

    def __enter__(self) -> None:
        self.owner.before(self.operation)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.owner.done.append(self.operation)
            self.owner.after(self.operation)


def crash_after_writes(store: Store, count: int) -> WatchedStore:
    """A store whose process dies right after its n-th write (0: before the first)."""
    written = 0

    def after(operation: Operation) -> None:
        nonlocal written
        written += operation.writes

    def before(operation: Operation) -> None:
        if written >= count:
            raise CrashError(f"before {operation}")

    return WatchedStore(store, before, after)
