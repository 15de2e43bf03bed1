"""SQLite driver: a store in one file, and access to all of its rows."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from dredge.errors import ConfigError, FormatError, UnavailableError
from dredge.kv.model import Entry, KeyNotFoundError, PredicateFailedError, Store
from dredge.kv.rows import Guard, GuardFailedError, Row, show_key
from dredge.kv.urls import absolute_file
from dredge.process import is_durable

BATCH_ROWS = 500
_BUSY_SECONDS = 60.0
_VALUE = "SELECT value FROM kv WHERE partition = ? AND key = ?"
_PARTITIONS = """
WITH RECURSIVE found (name) AS (
  SELECT min(partition) FROM kv
  UNION ALL
  SELECT (SELECT min(partition) FROM kv WHERE partition > found.name) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL
"""


class SQLiteRows:
    """A `RowCleaner` of an existing file (`sqlite:///absolute/path.db`)."""

    guards_max = 1000

    def __init__(self, url: str, read_only: bool = True) -> None:
        self._path = unquote(absolute_file(url))
        self._read_only = read_only
        self.location = f"sqlite://{self._path}"
        if not os.path.isfile(self._path):
            raise ConfigError(f"{self.location}: no such file")

    @contextlib.contextmanager
    def view(self) -> Iterator[SQLiteView]:
        with self._connection() as connection:
            connection.execute("BEGIN")
            yield SQLiteView(connection)

    def clock(self) -> None:
        """See `RowReader.clock`."""

    def own_id(self) -> str:
        return ""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        outcomes: list[bool] = []
        for first in range(0, len(rows), BATCH_ROWS):
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                _check(connection, guards, outcomes)
                done = [
                    connection.execute(
                        "DELETE FROM kv WHERE partition = ? AND key = ? AND value = ?", row
                    ).rowcount
                    == 1
                    for row in rows[first : first + BATCH_ROWS]
                ]
                connection.execute("COMMIT")
            outcomes.extend(done)
        return outcomes

    def insert_row(self, row: Row) -> bool:
        with self._connection() as connection:
            return connection.execute("INSERT OR IGNORE INTO kv VALUES (?, ?, ?)", row).rowcount == 1

    def close(self) -> None:
        """See `RowReader.close`."""

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            if self._read_only:
                connection.execute("PRAGMA query_only = ON")
            yield connection
        except sqlite3.OperationalError as error:
            family = (
                ConfigError if "readonly" in str(error) or "no such table" in str(error) else UnavailableError
            )
            raise family(f"{self.location}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"{self.location} is not a Dredge store or is damaged: {error}") from error
        finally:
            connection.close()  # an open transaction ends with it, undone


class SQLiteView:
    """A `RowView` of a file, a snapshot."""

    consistent = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def partitions(self) -> Iterator[bytes]:
        for (name,) in self._connection.execute(_PARTITIONS):
            yield bytes(name)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        query = "SELECT key, value FROM kv WHERE partition = ? AND key >= ? ORDER BY key"
        for key, value in self._connection.execute(query, (partition, start)):
            yield Entry(bytes(key), bytes(value))


def _check(connection: sqlite3.Connection, guards: Sequence[Guard], outcomes: Sequence[bool]) -> None:
    for guard in guards:
        found = connection.execute(_VALUE, guard[:2]).fetchone()
        if (None if found is None else bytes(found[0])) != guard.value:
            raise GuardFailedError(
                f"{show_key(guard.partition, guard.key)} changed during the delete", outcomes
            )


BUSY_SECONDS = 60.0
_PAGE_KEYS = 500
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS kv (
        partition BLOB NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (partition, key)
    ) WITHOUT ROWID
"""


class SQLiteKV(Store):
    """A `Store` in a SQLite file, with a pool of connections.

    Args:
        busy_seconds: wait for other writers before UnavailableError.
    """

    def __init__(self, path: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._pid = os.getpid()
        self._closed = False
        with self._connection():
            pass  # creates the file now, so that a wrong path is an error here

    def __repr__(self) -> str:
        return f"SQLiteKV({self._path!r})"

    def __reduce__(self) -> tuple[Callable[..., SQLiteKV], tuple[str, float]]:
        return SQLiteKV, (self._path, self._busy_seconds)

    def get(self, partition: bytes, key: bytes) -> bytes:
        with self._connection() as db:
            row = db.execute(
                "SELECT value FROM kv WHERE partition = ? AND key = ?", (partition, key)
            ).fetchone()
        if row is None:
            raise KeyNotFoundError(f"no key {key!r} in partition {partition!r}")
        return bytes(row[0])

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        query = "SELECT key, value FROM kv WHERE partition = ? AND key >= ? ORDER BY key LIMIT ?"
        while True:
            with self._connection() as db:
                rows = db.execute(query, (partition, start, _PAGE_KEYS)).fetchall()
            for key, value in rows:
                yield Entry(key, value)
            if len(rows) < _PAGE_KEYS:
                return
            start = rows[-1][0] + b"\0"

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self._write("INSERT OR REPLACE INTO kv VALUES (?, ?, ?)", (partition, key, value))

    def delete(self, partition: bytes, key: bytes) -> None:
        self._write("DELETE FROM kv WHERE partition = ? AND key = ?", (partition, key))

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        if predicate is None:
            changed = self._write("INSERT OR IGNORE INTO kv VALUES (?, ?, ?)", (partition, key, value))
        else:
            changed = self._write(
                "UPDATE kv SET value = ? WHERE partition = ? AND key = ? AND value = ?",
                (value, partition, key, predicate),
            )
        if changed != 1:
            raise PredicateFailedError(f"key {key!r} of {partition!r} has another value; nothing was written")

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        statement = "DELETE FROM kv WHERE partition = ? AND key = ? AND value = ?"
        if self._write(statement, (partition, key, predicate)) != 1:
            raise PredicateFailedError(f"key {key!r} of {partition!r} has another value; nothing was removed")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed = True
        if os.getpid() == self._pid:
            for db in idle:
                db.close()

    def _write(self, statement: str, values: tuple[bytes, ...]) -> int:
        with self._connection() as db:
            return db.execute(statement, values).rowcount

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Take a connection from the pool; raises Dredge's errors for SQLite's."""
        db: sqlite3.Connection | None = None
        try:
            db = self._borrow()
            yield db
        except sqlite3.OperationalError as error:
            if "unable to open" in str(error) or "readonly" in str(error):
                raise ConfigError(f"{self._path}: {error}") from error
            raise UnavailableError(
                f"{self._path}: {error}; another writer may hold its lock, try again"
            ) from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"{self._path} is not a Dredge store or is damaged: {error}") from error
        finally:
            if db is not None:
                self._give_back(db)

    def _borrow(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise ConfigError(f"{self._path}: the store is closed")
            if self._pid != os.getpid():
                # SQLite connections must not cross a fork, not even to be closed: leave the parent's alone.
                _abandoned.extend(self._idle)
                self._idle = []
                self._pid = os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, db: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(db)
                return
        db.close()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            # Changing the journal mode needs exclusive access, and SQLite does not wait for it.
            deadline = time.monotonic() + self._busy_seconds
            while True:
                try:
                    db.execute("PRAGMA journal_mode = WAL")
                    break
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
            # In WAL mode NORMAL would lose transactions that were acknowledged before a loss of power.
            db.execute(f"PRAGMA synchronous = {'FULL' if is_durable() else 'NORMAL'}")
            db.execute(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db


_abandoned: list[sqlite3.Connection] = []
"""A forked child's copies of its parent's connections, referenced so that they are never closed here."""
