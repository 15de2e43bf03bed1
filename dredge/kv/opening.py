"""Open a key-value store by URL; the only place that names the drivers."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

from dredge.kv.model import Store
from dredge.kv.urls import absolute_file, driver_of

type Opener = Callable[[str], Store]


def _open_memory(url: str) -> Store:
    from dredge.kv.memory import MemoryKV

    return MemoryKV()


def _open_sqlite(url: str) -> Store:
    from dredge.kv.sqlite import SQLiteKV

    return SQLiteKV(unquote(absolute_file(url)))


def _open_postgres(url: str) -> Store:
    from dredge.kv.postgres import PostgresStore

    return PostgresStore(url)


def _open_dynamodb(url: str) -> Store:
    from dredge.kv.dynamodb import DynamoStore

    return DynamoStore(url)


DRIVERS: dict[str, Opener] = {
    "dynamodb": _open_dynamodb,
    "memory": _open_memory,
    "postgres": _open_postgres,
    "postgresql": _open_postgres,
    "sqlite": _open_sqlite,
}
"""Driver by URL scheme; add a new driver here and to the conformance suite."""


def open_store(url: str) -> Store:
    """Open a key-value store.

    Args:
        url: `memory://` (a new, empty store), `sqlite:///absolute/path.db` (percent-coded),
            `postgresql://user@host/database`, `host=… dbname=…` (PostgreSQL) or `dynamodb://table?region=…`; a
            missing table is created.

    Raises:
        ConfigError: unknown scheme, or the store cannot be opened.
    """
    return DRIVERS[driver_of(url, sorted(DRIVERS))](url)
