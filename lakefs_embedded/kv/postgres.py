"""PostgreSQL driver: a store in the table of a real lakeFS."""

from __future__ import annotations

from collections.abc import Iterator

from dredge.kv.postgres import PAGE_AFTER, PAGE_FROM, PAGE_ROWS, PostgresConnections
from dredge.kv.rows import Entry, show_key
from lakefs_embedded.kv.model import KeyNotFoundError, PredicateFailedError, Store

TABLE_PARTITIONS = 100

_GET = "SELECT value FROM kv WHERE partition_key = %s AND key = %s"
_SET = (
    "INSERT INTO kv (partition_key, key, value) VALUES (%s, %s, %s) "
    "ON CONFLICT (partition_key, key) DO UPDATE SET value = excluded.value"
)
_SET_IF_ABSENT = "INSERT INTO kv (partition_key, key, value) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_SET_IF_EQUAL = "UPDATE kv SET value = %s WHERE partition_key = %s AND key = %s AND value = %s"
_DELETE = "DELETE FROM kv WHERE partition_key = %s AND key = %s"
_DELETE_IF_EQUAL = f"{_DELETE} AND value = %s"


class PostgresStore(PostgresConnections, Store):
    """A `Store` on a PostgreSQL database; a missing table is created or (not `create`) a `ConfigError`."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._creates = create
        super().__init__(url)

    def __reduce__(self) -> tuple[type[PostgresStore], tuple[str, bool]]:
        return PostgresStore, (self._url, False)

    def get(self, partition: bytes, key: bytes) -> bytes:
        rows = self.read(_GET, (partition, key))
        if not rows:
            raise KeyNotFoundError(f"{show_key(partition, key)} is not in {self.location}")
        value: bytes = rows[0][0]
        return value

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        rows = self.read(PAGE_FROM, (partition, start, PAGE_ROWS))
        while rows:
            for key, value in rows:
                yield Entry(key, value)
            if len(rows) < PAGE_ROWS:
                return
            rows = self.read(PAGE_AFTER, (partition, rows[-1][0], PAGE_ROWS))

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self.write(_SET, (partition, key, value))

    def delete(self, partition: bytes, key: bytes) -> None:
        self.write(_DELETE, (partition, key))

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        if predicate is None:
            count = self.write(_SET_IF_ABSENT, (partition, key, value))
        else:
            count = self.write(_SET_IF_EQUAL, (value, partition, key, predicate))
        if count == 0:
            raise PredicateFailedError(f"{show_key(partition, key)}: the value is not the expected one")

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        if self.write(_DELETE_IF_EQUAL, (partition, key, predicate)) == 0:
            raise PredicateFailedError(f"{show_key(partition, key)}: the value is not the expected one")

    def _find_table(self) -> None:
        """Create the table as lakeFS does, under its advisory lock, so that several processes can start at once."""
        if not self._creates:
            super()._find_table()
        elif not self.read(
            "SELECT 1 WHERE to_regclass('kv') IS NOT NULL AND to_regclass('kv_v') IS NOT NULL", ()
        ):
            with self.errors(), self.connection() as connection, connection.transaction():
                # The lock ends with the transaction; lakeFS's own session lock of the same number waits for it.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_ID,))
                for statement in _SCHEMA:
                    connection.execute(statement)


def fnv1a_32(data: bytes) -> int:
    """The 32-bit FNV-1a hash, from which lakeFS derives the number of its advisory lock."""
    number = 0x811C9DC5
    for byte in data:
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return number


_LOCK_ID = fnv1a_32(b"lakefs:kv")
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS kv (partition_key bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL, "
    "PRIMARY KEY (partition_key, key)) PARTITION BY HASH (partition_key)",
    *(
        f"CREATE TABLE IF NOT EXISTS kv_{number} PARTITION OF kv "
        f"FOR VALUES WITH (MODULUS {TABLE_PARTITIONS}, REMAINDER {number})"
        for number in range(TABLE_PARTITIONS)
    ),
    "CREATE OR REPLACE VIEW kv_v AS SELECT encode(partition_key, 'escape') AS partition_key, "
    "encode(key, 'escape') AS key, value FROM kv",
)
