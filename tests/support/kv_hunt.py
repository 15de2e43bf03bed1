"""An embedded lakeFS on PostgreSQL with a cleaner beside it, and points to pause either of them.

The server's store is watched: a test may pause, delay or fail any of its operations. The cleaner works on the same
database through another connection, with margins of a second or so instead of days.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dredge.kv import Store, open_store
from dredge.kv.postgres_rows import PostgresRows
from dredge.storage import open_writer
from dredge.trash.findings import TrashLimits
from dredge.trash.settings import TrashMargins
from dredge.trash.state import TrashState
from dredge.trash.steps import CleanReport, clean, scan
from lakefs_embedded.catalog import Catalog
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakefs_server import Lake, lakefs_server

STEP_SECONDS = 30


class Crash(Exception):
    """The server's process ends here."""


class Gate:
    """Holds one operation of the server until the test opens it."""

    def __init__(self, operation: str, partition: bytes = b"", key: bytes = b"", skip: int = 0) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        self._wanted = (operation, partition, key)
        self._skip = skip

    def __call__(self, operation: Operation) -> None:
        wanted, begin, prefix = self._wanted
        if operation.name != wanted or not operation.partition.startswith(begin):
            return
        if not operation.key.startswith(prefix):
            return
        if self.reached.is_set():
            return
        if self._skip:
            self._skip -= 1
            return
        self.reached.set()
        assert self._open.wait(STEP_SECONDS), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()


class CleanerRows(PostgresRows):
    """The cleaner's access to the database, with hooks for a test."""

    def __init__(self, url: str) -> None:
        super().__init__(url, read_only=False)
        self.before_view: dict[int, Callable[[], None]] = {}
        """Actions before the nth view of a run: 1 the store's identity, 2 first look, 3 second, 4 first
        deletion."""
        self.before_delete: list[Callable[[], None]] = []
        self.views = 0

    def view(self) -> AbstractContextManager[Any]:
        self.views += 1
        self.before_view.pop(self.views, lambda: None)()
        return super().view()

    def delete_rows(self, rows: Any, guards: Any = ()) -> list[bool]:
        while self.before_delete:
            self.before_delete.pop(0)()
        return super().delete_rows(rows, guards)


class Ground:
    """One database, one server, one cleaner."""

    def __init__(
        self, url: str, folder: Path, lake: Lake, store: WatchedStore, margins: TrashMargins
    ) -> None:
        self.url = url
        self.lake = lake
        self.store = store
        self.margins = margins
        self.rows = CleanerRows(url)
        self.state = TrashState(open_writer(f"file://{folder}/state"))

    @property
    def catalog(self) -> Catalog:
        return self.lake.server.catalog

    @property
    def kv(self) -> Store:
        """The unwatched database."""
        return self.store._store

    def scan(self) -> Any:
        return scan(self.rows, self.state, clock=_now, margins=self.margins)

    def clean(self, **options: Any) -> CleanReport:
        self.rows.views = 0
        return clean(
            self.rows,
            self.state,
            **{"clock": _now, "margins": self.margins, "limits": LIMITS, "dry_run": False} | options,
        )

    def rest(self, seconds: float | None = None) -> None:
        time.sleep(self.margins.grace.total_seconds() + 0.1 if seconds is None else seconds)

    def files(self, repository: str, branch: str) -> dict[str, int]:
        """Path and size of a branch's objects."""
        page = self.catalog.reading.list_entries(repository, branch, amount=1000)
        return {entry.path: entry.size_bytes for entry in page.results}

    def upload(self, repository: str, branch: str, path: str, size: int) -> None:
        self.catalog.objects.upload_object(repository, branch, path, b"x" * size)

    def create(self, repository: str) -> None:
        self.catalog.repositories.create_repository(repository, self.lake.namespace(repository))

    def commit(self, repository: str, branch: str) -> str:
        return self.catalog.commits.commit(repository, branch, committer="t", message="m").id

    @contextlib.contextmanager
    def held(self, gate: Gate, work: Callable[[], Any]) -> Iterator[threading.Thread]:
        """Start work of the server, wait until it is paused, and let it end afterwards."""
        self.store.before = gate
        errors: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert gate.reached.wait(STEP_SECONDS), f"the work never came to the gate: {errors}"
        try:
            yield thread
        finally:
            gate.open()
            thread.join(STEP_SECONDS)
            self.store.before = lambda _: None
        if errors:
            raise errors[0]


LIMITS = TrashLimits(partitions=10**6, partition_percent=100)


@contextlib.contextmanager
def hunting_ground(url: str, folder: Path, grace: float, id_age: float | None = None) -> Iterator[Ground]:
    """Run a server and a cleaner on a database."""
    margins = TrashMargins(
        grace=timedelta(seconds=grace),
        id_age=timedelta(seconds=grace if id_age is None else id_age),
        unnamed=timedelta(seconds=grace),
        unsafe_short_grace=True,
    )
    with open_store(url) as inner:
        store = WatchedStore(inner)
        with lakefs_server(folder, kv=store) as lake:
            ground = Ground(url, folder, lake, store, margins)
            try:
                yield ground
            finally:
                ground.rows.close()


def _now() -> datetime:
    return datetime.now(UTC)
