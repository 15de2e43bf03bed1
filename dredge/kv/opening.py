"""Opens a key-value store by URL, as a lakeFS's store or for all of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from dredge.kv.model import MemoryKV, Store
from dredge.kv.rows import ReadRate, RowCleaner, RowReader
from dredge.kv.urls import absolute_file, driver_of

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys

ROW_SCHEMES = ("dynamodb", "postgres", "postgresql", "sqlite")
SCHEMES = ("dynamodb", "memory", "postgres", "postgresql", "sqlite")


def open_store(url: str) -> Store:
    """Open a key-value store; a missing table is created.

    Args:
        url: `memory://` (a new, empty store), `sqlite:///absolute/path.db` (percent-coded),
            `postgresql://user@host/database`, `host=… dbname=…` (PostgreSQL) or `dynamodb://table?region=…`.
    """
    scheme = driver_of(url, SCHEMES)
    if scheme in ("postgresql", "postgres"):
        from dredge.kv.postgres import PostgresStore

        return PostgresStore(url)
    if scheme == "dynamodb":
        from dredge.kv.dynamodb import DynamoStore

        return DynamoStore(url)
    if scheme == "memory":
        return MemoryKV()
    from dredge.kv.sqlite import SQLiteKV

    return SQLiteKV(unquote(absolute_file(url)))


def open_row_reader(url: str, rate: ReadRate | None = None, keys: AwsKeys | None = None) -> RowReader:
    """Open a store for reading all of its rows.

    Args:
        url: `postgresql://…`, `host=… dbname=…` (PostgreSQL), `dynamodb://…` or `sqlite:///…`; the table must exist.
    """
    return _open(url, rate, keys, read_only=True)


def open_row_cleaner(url: str, rate: ReadRate | None = None, keys: AwsKeys | None = None) -> RowCleaner:
    """Open a store for the trash cleaner, its only user; arguments as for `open_row_reader`."""
    return _open(url, rate, keys, read_only=False)


def _open(url: str, rate: ReadRate | None, keys: AwsKeys | None, read_only: bool) -> RowCleaner:
    scheme = driver_of(url, ROW_SCHEMES)
    if scheme in ("postgresql", "postgres"):
        from dredge.kv.postgres_rows import PostgresRows

        return PostgresRows(url, read_only)
    if scheme == "dynamodb":
        from dredge.kv.dynamodb_rows import DynamoRows

        return DynamoRows(url, rate, keys=keys)
    from dredge.kv.sqlite import SQLiteRows

    return SQLiteRows(url, read_only)
