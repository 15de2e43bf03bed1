"""Opens the rows of a key-value store by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dredge.kv.rows import ReadRate, RowCleaner, RowReader, driver_of

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys

SCHEMES = ("dynamodb", "postgres", "postgresql", "sqlite")


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
    scheme = driver_of(url, SCHEMES)
    if scheme in ("postgresql", "postgres"):
        from dredge.kv.postgres_rows import PostgresRows

        return PostgresRows(url, read_only)
    if scheme == "dynamodb":
        from dredge.kv.dynamodb_rows import DynamoRows

        return DynamoRows(url, rate, keys=keys)
    from dredge.kv.sqlite import SQLiteRows

    return SQLiteRows(url, read_only)
