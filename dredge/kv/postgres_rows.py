"""Rows of a PostgreSQL store: consistent views and conditional deletes.

A view is a REPEATABLE READ transaction on the primary. Partitions are found by skipping from one to the next along the
primary key of each table, so the cost grows with the number of partitions, not of rows.

A delete is a short transaction. It locks the guards' rows FOR SHARE (their writers wait until it ends), then deletes
the rows with an unchanged value. In PostgreSQL's default isolation a concurrently changed row is evaluated again in
its new version, so the condition on the value holds in every interleaving.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError, RefusedError
from dredge.kv.postgres import PAGE_AFTER, PAGE_FROM, PAGE_ROWS, PostgresConnections
from dredge.kv.rows import Entry, Guard, GuardFailedError, Row, show_key

if TYPE_CHECKING:
    import psycopg

BATCH_ROWS = 500
_LOCK_WAIT = "2s"

_TABLES = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'kv'::regclass"
_PARTITIONS = """
WITH RECURSIVE found AS (
  (SELECT partition_key FROM {table} ORDER BY partition_key LIMIT 1)
  UNION ALL
  SELECT (SELECT t.partition_key FROM {table} t WHERE t.partition_key > found.partition_key
          ORDER BY t.partition_key LIMIT 1)
  FROM found WHERE found.partition_key IS NOT NULL
)
SELECT partition_key FROM found WHERE partition_key IS NOT NULL
"""
_OWN_ID = (
    "SELECT system_identifier FROM pg_control_system()",
    "SELECT timeline_id FROM pg_control_checkpoint()",
    "SELECT to_regclass('kv')::oid::bigint",
)
_GUARDS = (
    "SELECT kv.partition_key, kv.key, kv.value FROM unnest(%s::bytea[], %s::bytea[]) AS wanted (p, k) "
    "JOIN kv ON kv.partition_key = wanted.p AND kv.key = wanted.k FOR SHARE OF kv"
)
_DELETE = (
    "DELETE FROM kv USING unnest(%s::bytea[], %s::bytea[], %s::bytea[]) AS doomed (p, k, v) "
    "WHERE kv.partition_key = doomed.p AND kv.key = doomed.k AND kv.value = doomed.v "
    "RETURNING kv.partition_key, kv.key"
)
_INSERT = "INSERT INTO kv (partition_key, key, value) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"


class PostgresRows:
    """A `RowCleaner` of a PostgreSQL database with lakeFS's table."""

    guards_max = 1000

    def __init__(self, url: str, read_only: bool = True) -> None:
        self._store = PostgresConnections(url, read_only)
        self.location = self._store.location

    @contextlib.contextmanager
    def view(self) -> Iterator[PostgresView]:
        import psycopg

        connection = self._store.connect()
        try:
            with self._store.errors():
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                with connection.transaction():
                    standby = connection.execute("SELECT pg_is_in_recovery()").fetchone()
                    if standby is None or standby[0]:
                        raise RefusedError(f"{self.location} is a standby; use the primary")
                    yield PostgresView(connection)
        finally:
            connection.close()

    def clock(self) -> datetime:
        (now,) = self._store.read("SELECT clock_timestamp()", ())[0]
        moment: datetime = now
        return moment.astimezone(UTC)

    def own_id(self) -> str:
        parts = []
        for statement in _OWN_ID:
            try:
                parts.append(str(self._store.read(statement, ())[0][0]))
            except ConfigError:
                parts.append("-")  # some services do not let users read the control file
        return ":".join(parts)

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        outcomes: list[bool] = []
        for first in range(0, len(rows), BATCH_ROWS):
            batch = rows[first : first + BATCH_ROWS]
            with self._store.errors(), self._store.connection() as connection, connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
                failed = _first_failing(connection, guards)
                if failed is not None:
                    name = show_key(failed.partition, failed.key)
                    raise GuardFailedError(f"{name} changed during the delete", outcomes)
                gone = set(connection.cursor(binary=True).execute(_DELETE, _columns(batch)).fetchall())
            outcomes.extend((row.partition, row.key) in gone for row in batch)
        return outcomes

    def insert_row(self, row: Row) -> bool:
        return self._store.write(_INSERT, row) == 1

    def close(self) -> None:
        self._store.close()


class PostgresView:
    """A `RowView` of a database; all reads see one snapshot."""

    consistent = True

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def partitions(self) -> Iterator[bytes]:
        from psycopg import sql

        tables = [name for (name,) in self._connection.execute(_TABLES)] or ["kv"]
        found: list[bytes] = []
        for table in tables:
            query = sql.SQL(_PARTITIONS).format(table=sql.Identifier(table))
            found.extend(name for (name,) in self._connection.cursor(binary=True).execute(query))
        return iter(sorted(found))

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        rows = self._page(PAGE_FROM, partition, start)
        while rows:
            for key, value in rows:
                yield Entry(key, value)
            if len(rows) < PAGE_ROWS:
                return
            rows = self._page(PAGE_AFTER, partition, rows[-1][0])

    def _page(self, query: str, partition: bytes, key: bytes) -> list[Any]:
        cursor = self._connection.cursor(binary=True)
        return cursor.execute(query, (partition, key, PAGE_ROWS)).fetchall()


def _first_failing(connection: psycopg.Connection[Any], guards: Sequence[Guard]) -> Guard | None:
    if not guards:
        return None
    wanted = sorted(
        set(guards), key=lambda guard: guard[:2]
    )  # locked in one order, so that two cleaners cannot deadlock
    columns = ([guard.partition for guard in wanted], [guard.key for guard in wanted])
    found = {(p, k): v for p, k, v in connection.cursor(binary=True).execute(_GUARDS, columns)}
    return next((guard for guard in wanted if found.get((guard.partition, guard.key)) != guard.value), None)


def _columns(rows: Sequence[Row]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    ordered = sorted(set(rows))
    return [r.partition for r in ordered], [r.key for r in ordered], [r.value for r in ordered]
