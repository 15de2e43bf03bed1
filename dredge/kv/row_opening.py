"""Open the raw rows of a store by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dredge.errors import ConfigError
from dredge.kv.rows import ReadRate, RowCleaner, RowReader

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys

SCHEMES = ("dynamodb", "postgres", "postgresql", "sqlite")


def open_row_reader(url: str, rate: ReadRate | None = None, keys: AwsKeys | None = None) -> RowReader:
    """Open a store to look at all of it; nothing can be changed through it.

    Args:
        url: `postgresql://…`, `dynamodb://…` or `sqlite:///…`; the table must exist.
        rate: how fast a DynamoDB table may be scanned; other stores have no use for it.
        keys: for DynamoDB, instead of what the environment has.

    Raises:
        ConfigError: no such scheme, or no such store.
    """
    return _open(url, rate, keys, read_only=True)


def open_row_cleaner(url: str, rate: ReadRate | None = None, keys: AwsKeys | None = None) -> RowCleaner:
    """Open a store for the trash cleaner and nobody else; arguments as for `open_row_reader`."""
    return _open(url, rate, keys, read_only=False)


def _open(url: str, rate: ReadRate | None, keys: AwsKeys | None, read_only: bool) -> RowCleaner:
    scheme = url.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        from dredge.kv.postgres_rows import PostgresRows

        return PostgresRows(url, read_only)
    if scheme == "dynamodb":
        from dredge.kv.dynamodb_rows import DynamoRows

        return DynamoRows(url, rate, keys=keys)
    if scheme == "sqlite":
        from dredge.kv.sqlite_rows import SQLiteRows

        return SQLiteRows(url, read_only)
    if scheme == "memory":
        raise ConfigError("a memory:// store lives in its own process: it cannot be opened by URL")
    raise ConfigError(f"no key-value store {scheme}://: {', '.join(SCHEMES)} can be looked at as a whole")
