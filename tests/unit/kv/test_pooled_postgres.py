"""PostgreSQL behind a pooler that lakeFS shares: Dredge leaves nothing in the session it was lent."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from dredge.errors import ConfigError, RefusedError
from dredge.kv.postgres_rows import PostgresRows
from dredge.kv.rows import Guard, Row
from dredge.runs.clock import utc_now
from dredge.storage import open_writer
from dredge.trash.findings import TrashLimits, TrashMargins
from dredge.trash.state import TrashState
from dredge.trash.steps import clean, scan
from lakefs_embedded.kv.postgres import PostgresStore
from tests.support.pooler import pooler
from tests.support.postgres import PostgresServer

_SESSION = (
    "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name NOT LIKE 'transaction%'"
    " UNION ALL SELECT 'prepared', statement FROM pg_prepared_statements"
    " UNION ALL SELECT 'lock', objid::text FROM pg_locks WHERE locktype = 'advisory'"
    " UNION ALL SELECT 'listens', pg_listening_channels()"
    " UNION ALL SELECT 'table', relname FROM pg_class WHERE relpersistence = 't'"
    " UNION ALL SELECT 'cursor', name FROM pg_cursors WHERE is_holdable"
)
"""Everything that a client can leave in a session."""


@pytest.fixture
def pooled(postgres: PostgresServer) -> Iterator[str]:
    direct = postgres.new_database()
    with pooler(direct) as url:
        yield url


@pytest.fixture
def lakefs(pooled: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of lakeFS's through the same pooler, on a store with a schema version."""
    with PostgresStore(pooled) as store:
        store.set(b"kv-internal-metadata", b"kv/schema/version", b"4")
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        yield connection


def _still_writes(lakefs: psycopg.Connection[tuple[object, ...]]) -> None:
    assert lakefs.execute(_SESSION).fetchall() == []
    for number in range(20):
        lakefs.execute(
            "INSERT INTO kv VALUES ('p', %s, 'v') ON CONFLICT (partition_key, key) DO UPDATE SET value = 'w'",
            (b"%d" % number,),
        )


def test_lakefs_writes_after_a_look_through_the_same_pooler(
    pooled: str, lakefs: psycopg.Connection[tuple[object, ...]], tmp_path: Path
) -> None:
    reader = PostgresRows(pooled)
    for _ in range(10):  # psycopg prepares a statement when it comes for the sixth time
        reader.clock()
    scan(reader, TrashState(open_writer(f"file://{tmp_path}")), clock=utc_now, margins=TrashMargins())
    reader.close()
    _still_writes(lakefs)


def test_lakefs_writes_after_a_dry_run_of_the_cleaner(
    pooled: str, lakefs: psycopg.Connection[tuple[object, ...]], tmp_path: Path
) -> None:
    cleaner = PostgresRows(pooled, read_only=False)
    clean(
        cleaner,
        TrashState(open_writer(f"file://{tmp_path}")),
        clock=utc_now,
        margins=TrashMargins.with_grace(timedelta(0), unsafe_short_grace=True),
        limits=TrashLimits(),
    )
    cleaner.close()
    _still_writes(lakefs)


def test_a_cleaner_and_a_server_leave_nothing_in_the_session(
    pooled: str, lakefs: psycopg.Connection[tuple[object, ...]]
) -> None:
    cleaner = PostgresRows(pooled, read_only=False)
    with PostgresStore(pooled) as store:
        for number in range(10):
            key = b"%d" % number
            store.set(b"q", key, b"v")
            store.set_if(b"q", key, b"w", b"v")
            assert store.get(b"q", key) == b"w"
            assert len(list(store.scan(b"q"))) == 1
            assert cleaner.delete_rows([Row(b"q", key, b"w")], [Guard(b"g", b"k", None)]) == [True]
            assert cleaner.insert_row(Row(b"q", key, b"w"))
            store.delete_if(b"q", key, b"w")
    cleaner.close()
    _still_writes(lakefs)


def test_a_reader_cannot_write_through_a_pooler_either(
    pooled: str, lakefs: psycopg.Connection[tuple[object, ...]]
) -> None:
    lakefs.execute("INSERT INTO kv VALUES ('p', 'k', 'v')")
    reader = PostgresRows(pooled)
    with pytest.raises(RefusedError):
        reader.insert_row(Row(b"p", b"new", b"v"))
    with pytest.raises(RefusedError):
        reader.delete_rows([Row(b"p", b"k", b"v")])
    reader.close()
    assert lakefs.execute("SELECT count(*) FROM kv WHERE partition_key = 'p'").fetchall() == [(1,)]
    _still_writes(lakefs)


def test_a_pooler_that_drops_the_search_path_is_refused(postgres: PostgresServer) -> None:
    direct = postgres.new_database()
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA lake")
    with PostgresStore(f"{direct}&search_path=lake") as store:
        store.set(b"p", b"k", b"v")
    with pooler(direct) as url:
        PostgresStore(url).close()  # the table of the schema that everybody sees
        for create in (False, True):
            with pytest.raises(ConfigError):
                PostgresStore(f"{url}?search_path=lake", create=create)
        PostgresStore(f"{url}?search_path=%22%24user%22%2C%20public").close()
