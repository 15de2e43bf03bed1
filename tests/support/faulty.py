"""A key-value store with failures or callbacks at chosen operations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from lakefs_embedded.kv import Entry, Store


class CrashError(BaseException):
    """The process has died: caught only by the test."""


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    partition: bytes
    key: bytes

    @property
    def writes(self) -> bool:
        return self.name in ("set", "set_if", "delete", "delete_if")


class ForwardingStore(Store):
    """Hands each operation of a store, with its deed, to `_do`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, partition: bytes, key: bytes) -> bytes:
        return self._do(Operation("get", partition, key), lambda: self._store.get(partition, key))

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        return self._do(Operation("scan", partition, start), lambda: self._store.scan(partition, start))

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self._write("set", partition, key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        self._write("delete", partition, key)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        self._write("set_if", partition, key, value, predicate)

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        self._write("delete_if", partition, key, predicate)

    def close(self) -> None:
        pass

    def _write(self, name: str, partition: bytes, key: bytes, *values: bytes | None) -> None:
        self._do(
            Operation(name, partition, key), partial(getattr(self._store, name), partition, key, *values)
        )

    def _do[T](self, operation: Operation, deed: Callable[[], T]) -> T:
        raise NotImplementedError


class WatchedStore(ForwardingStore):
    """Calls `before` and `after` around every operation; either may raise.

    An error of `before` replaces the operation; an error of `after` follows a finished operation.
    """

    def __init__(
        self,
        store: Store,
        before: Callable[[Operation], object] = lambda _: None,
        after: Callable[[Operation], object] = lambda _: None,
    ) -> None:
        super().__init__(store)
        self.before = before
        self.after = after

    def _do[T](self, operation: Operation, deed: Callable[[], T]) -> T:
        self.before(operation)
        found = deed()
        self.after(operation)
        return found


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
