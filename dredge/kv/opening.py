"""Open the rows of a key-value store by URL; rows in SQLite."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dredge.errors import ConfigError, FormatError, UnavailableError
from dredge.kv.rows import (
    Entry,
    Guard,
    GuardFailedError,
    ReadRate,
    Row,
    RowCleaner,
    RowReader,
    absolute_file,
    driver_of,
    show_key,
)

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys

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
            raise FormatError(f"{self.location} is damaged, or no key-value store: {error}") from error
        finally:
            connection.close()  # an open transaction ends with it, undone


class SQLiteView:
    """A `RowView` of a file; all reads see one snapshot."""

    consistent = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def partitions(self) -> Iterator[bytes]:
        for (name,) in self._connection.execute(_PARTITIONS):
            yield bytes(name)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        query = "SELECT key, value FROM kv WHERE partition = ? AND key >= ? ORDER BY key"
        for key, value in self._connection.execute(query, (partition, start)):
            yield Entry(key, value)


def _check(connection: sqlite3.Connection, guards: Sequence[Guard], outcomes: Sequence[bool]) -> None:
    for guard in guards:
        found = connection.execute(_VALUE, guard[:2]).fetchone()
        if (None if found is None else bytes(found[0])) != guard.value:
            raise GuardFailedError(
                f"{show_key(guard.partition, guard.key)} changed during the delete", outcomes
            )


SCHEMES = ("dynamodb", "postgres", "postgresql", "sqlite")


def open_row_reader(url: str, rate: ReadRate | None = None, keys: AwsKeys | None = None) -> RowReader:
    """Open a store for reading all of its rows. `url`: `postgresql://…`, `host=… dbname=…` (PostgreSQL), `dynamodb://…`
    or `sqlite:///…`; the table must exist."""
    return _open(url, rate, keys, read_only=True)


def open_row_cleaner(url: str, rate: ReadRate | None = None, keys: AwsKeys | None = None) -> RowCleaner:
    """Open a store for the trash cleaner, its only user; arguments as for `open_row_reader`."""
    return _open(url, rate, keys, read_only=False)


def _open(url: str, rate: ReadRate | None, keys: AwsKeys | None, read_only: bool) -> RowCleaner:
    scheme = driver_of(url, SCHEMES)
    if scheme in ("postgresql", "postgres"):
        from dredge.kv.postgres_rows import PostgresRows

        return PostgresRows(url, read_only)
    if scheme == "dynamodb":
        from dredge.kv.dynamodb_rows import DynamoRows

        return DynamoRows(url, rate, keys=keys)

    return SQLiteRows(url, read_only)
