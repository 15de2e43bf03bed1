"""The key-value stores of the embedded lakeFS: `open_store` and `model.Store`."""

from urllib.parse import unquote

from dredge.kv.rows import Entry, absolute_file, driver_of
from lakefs_embedded.kv.model import KeyNotFoundError, MemoryKV, PredicateFailedError, Store

__all__ = ["Entry", "KeyNotFoundError", "MemoryKV", "PredicateFailedError", "Store", "open_store"]
SCHEMES = ("dynamodb", "memory", "postgres", "postgresql", "sqlite")


def open_store(url: str) -> Store:
    """Open a key-value store; a missing table is created.

    Args:
        url: `memory://` (a new, empty store), `sqlite:///absolute/path.db` (percent-coded),
            `postgresql://user@host/database`, `host=… dbname=…` (PostgreSQL) or `dynamodb://table?region=…`.
    """
    scheme = driver_of(url, SCHEMES)
    if scheme in ("postgresql", "postgres"):
        from lakefs_embedded.kv.postgres import PostgresStore

        return PostgresStore(url)
    if scheme == "dynamodb":
        from lakefs_embedded.kv.dynamodb import DynamoStore

        return DynamoStore(url)
    if scheme == "memory":
        return MemoryKV()
    from lakefs_embedded.kv.sqlite import SQLiteKV

    return SQLiteKV(unquote(absolute_file(url)))
