"""Raw rows of PostgreSQL: a view is a snapshot, and a delete removes exactly the given rows."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import psycopg
import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.kv.postgres_rows import PostgresRows
from dredge.kv.rows import Guard, GuardFailedError, Row
from lakefs_embedded.kv.postgres import PostgresStore
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> str:
    url = postgres.new_database()
    PostgresStore(url).close()
    return url


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:
    with PostgresStore(database) as opened, psycopg.connect(database, autocommit=True) as connection:
        connection.execute("TRUNCATE kv")
        yield opened


@pytest.fixture
def rows(database: str) -> Iterator[PostgresRows]:
    opened = PostgresRows(database, read_only=False)
    yield opened
    opened.close()


def test_two_scans_of_a_view_may_overlap(store: PostgresStore, rows: PostgresRows) -> None:
    for number in range(1500):
        store.set(b"p", b"%04d" % number, b"")
    with rows.view() as view:
        first = view.scan(b"p")
        next(first)
        assert len(list(view.scan(b"p", b"0700"))) == 800
        assert len(list(first)) == 1499


def test_many_rows_go_in_several_transactions(store: PostgresStore, rows: PostgresRows) -> None:
    doomed = [Row(b"p", b"%05d" % number, b"v%d" % number) for number in range(1201)]
    for row in doomed:
        store.set(*row)
    store.set(b"q", b"00001", b"v1")
    assert rows.delete_rows(doomed) == [True] * 1201
    assert list(store.scan(b"p")) == []
    assert store.get(b"q", b"00001") == b"v1"


def test_a_row_that_is_being_changed_is_not_deleted(
    store: PostgresStore, rows: PostgresRows, database: str
) -> None:
    store.set(b"p", b"k", b"old")
    outcome: list[bool] = []
    with psycopg.connect(database) as writer:
        writer.execute("UPDATE kv SET value = 'new' WHERE partition_key = 'p'")
        deletion = threading.Thread(
            target=lambda: outcome.extend(rows.delete_rows([Row(b"p", b"k", b"old")]))
        )
        deletion.start()
        deletion.join(0.3)
        assert deletion.is_alive(), "the deletion has to wait for the writer"
        writer.commit()
    deletion.join(10)
    assert outcome == [False]
    assert store.get(b"p", b"k") == b"new"


def test_a_guard_that_is_being_changed_fails(store: PostgresStore, rows: PostgresRows, database: str) -> None:
    store.set(b"g", b"k", b"old")
    store.set(b"p", b"k", b"v")
    caught: list[BaseException] = []

    def delete() -> None:
        try:
            rows.delete_rows([Row(b"p", b"k", b"v")], [Guard(b"g", b"k", b"old")])
        except GuardFailedError as error:
            caught.append(error)

    with psycopg.connect(database) as writer:
        writer.execute("UPDATE kv SET value = 'new' WHERE partition_key = 'g'")
        deletion = threading.Thread(target=delete)
        deletion.start()
        deletion.join(0.3)
        writer.commit()
    deletion.join(10)
    assert len(caught) == 1
    assert store.get(b"p", b"k") == b"v"


def test_a_writer_that_never_ends_does_not_hold_the_cleaner(
    store: PostgresStore, rows: PostgresRows, database: str
) -> None:
    store.set(b"p", b"k", b"v")
    with psycopg.connect(database) as writer:
        writer.execute("SELECT 1 FROM kv WHERE partition_key = 'p' FOR UPDATE")
        with pytest.raises(UnavailableError):
            rows.delete_rows([Row(b"p", b"k", b"v")])
    assert store.get(b"p", b"k") == b"v"


def test_the_clock_is_the_databases(rows: PostgresRows) -> None:
    assert abs(rows.clock() - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_reader_cannot_delete(store: PostgresStore, database: str) -> None:
    store.set(b"p", b"k", b"v")
    reader = PostgresRows(database)
    with pytest.raises(RefusedError):
        reader.delete_rows([Row(b"p", b"k", b"v")])
    reader.close()


def test_a_standby_is_refused(database: str, store: PostgresStore) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fake")
        connection.execute(
            "CREATE FUNCTION fake.pg_is_in_recovery() RETURNS bool LANGUAGE sql AS 'SELECT true'"
        )
    option = quote("-csearch_path=fake,pg_catalog,public", safe="")
    standby = PostgresRows(f"{database}&options={option}")
    with pytest.raises(RefusedError, match="standby"), standby.view():
        pass
    standby.close()
