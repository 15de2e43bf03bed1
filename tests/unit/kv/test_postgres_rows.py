"""Raw rows of PostgreSQL: a view is a snapshot, and a delete removes exactly the given rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import psycopg
import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.kv.postgres import PostgresStore
from dredge.kv.postgres_rows import PostgresRows
from dredge.kv.rows import Guard, GuardFailedError, Row
from tests.support.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync=False) as running:
        yield running


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> str:
    url = server.new_database()
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


def test_partitions_are_found_once_each_in_byte_order(store: PostgresStore, rows: PostgresRows) -> None:
    names = [b"\x00", b"\x00\xff", b"a", b"a-b", b"a-b:c", b"\xff"]
    for name in names:
        for key in (b"1", b"2"):
            store.set(name, key, b"v")
    with rows.view() as view:
        assert list(view.partitions()) == names


def test_an_empty_store_has_no_partitions(store: PostgresStore, rows: PostgresRows) -> None:
    with rows.view() as view:
        assert list(view.partitions()) == []


def test_a_view_is_one_moment_whatever_is_written_meanwhile(store: PostgresStore, rows: PostgresRows) -> None:
    store.set(b"p", b"k", b"old")
    with rows.view() as view:
        before = [(entry.key, entry.value) for entry in view.scan(b"p")]
        store.set(b"p", b"k", b"new")
        store.set(b"q", b"k", b"new")
        assert [(entry.key, entry.value) for entry in view.scan(b"p")] == before == [(b"k", b"old")]
        assert list(view.partitions()) == [b"p"]


def test_two_scans_of_a_view_may_overlap(store: PostgresStore, rows: PostgresRows) -> None:
    for number in range(1500):
        store.set(b"p", b"%04d" % number, b"")
    with rows.view() as view:
        first = view.scan(b"p")
        next(first)
        assert len(list(view.scan(b"p", b"0700"))) == 800
        assert len(list(first)) == 1499


def test_only_rows_with_their_value_go(store: PostgresStore, rows: PostgresRows) -> None:
    store.set(b"p", b"same", b"v")
    store.set(b"p", b"changed", b"new")
    store.set(b"p", b"bystander", b"v")
    outcome = rows.delete_rows(
        [Row(b"p", b"changed", b"old"), Row(b"p", b"same", b"v"), Row(b"p", b"gone", b"v")]
    )
    assert outcome == [False, True, False]
    assert [entry.key for entry in store.scan(b"p")] == [b"bystander", b"changed"]


def test_many_rows_go_in_several_transactions(store: PostgresStore, rows: PostgresRows) -> None:
    doomed = [Row(b"p", b"%05d" % number, b"v%d" % number) for number in range(1201)]
    for row in doomed:
        store.set(*row)
    store.set(b"q", b"00001", b"v1")
    assert rows.delete_rows(doomed) == [True] * 1201
    assert list(store.scan(b"p")) == []
    assert store.get(b"q", b"00001") == b"v1"


@pytest.mark.parametrize(
    "guard", [Guard(b"g", b"k", b"other"), Guard(b"g", b"k", None), Guard(b"g", b"absent", b"v")]
)
def test_a_failing_guard_keeps_every_row(store: PostgresStore, rows: PostgresRows, guard: Guard) -> None:
    store.set(b"g", b"k", b"v")
    store.set(b"p", b"k", b"v")
    with pytest.raises(GuardFailedError) as caught:
        rows.delete_rows([Row(b"p", b"k", b"v")], [Guard(b"g", b"k", b"v"), guard])
    assert caught.value.outcomes == []
    assert store.get(b"p", b"k") == b"v"


def test_guards_that_hold_let_rows_go(store: PostgresStore, rows: PostgresRows) -> None:
    store.set(b"g", b"k", b"v")
    store.set(b"p", b"k", b"v")
    assert rows.delete_rows(
        [Row(b"p", b"k", b"v")], [Guard(b"g", b"k", b"v"), Guard(b"g", b"absent", None)]
    ) == [True]


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


def test_a_row_is_put_back_only_where_nothing_is(store: PostgresStore, rows: PostgresRows) -> None:
    assert rows.insert_row(Row(b"p", b"k", b"v"))
    assert not rows.insert_row(Row(b"p", b"k", b"other"))
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
