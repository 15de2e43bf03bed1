"""SQLite driver: a store in one file."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dredge.errors import ConfigError, FormatError, UnavailableError
from dredge.kv.rows import Entry
from dredge.process import is_durable
from lakefs_embedded.kv.model import KeyNotFoundError, PredicateFailedError, Store

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
    """A `Store` in a SQLite file, with a pool of connections; waits `busy_seconds` for other writers."""

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
