"""The PostgreSQL driver beyond what every store promises: lakeFS's layout, lost connections, secrets."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import psycopg
import pytest

from dredge.errors import ConfigError, RefusedError, UnavailableError
from dredge.kv import KeyNotFoundError
from dredge.kv.postgres import PostgresStore, fnv1a_32
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with PostgresStore(url) as opened:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("TRUNCATE kv")
        yield opened


def test_the_table_is_the_one_of_a_real_lakefs(url: str, store: PostgresStore) -> None:
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_name = 'kv' ORDER BY ordinal_position"
        ).fetchall()
        key = connection.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = 'kv'::regclass AND contype = 'p'"
        ).fetchall()
        parts = connection.execute(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i "
            "JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'kv'::regclass"
        ).fetchall()
        how = connection.execute("SELECT pg_get_partkeydef('kv'::regclass)").fetchall()
        store.set(b"p", b"k\x00\xff", b"v")
        shown = connection.execute("SELECT partition_key, key FROM kv_v WHERE partition_key = 'p'").fetchall()
    assert columns == [(name, "bytea", "NO") for name in ("partition_key", "key", "value")]
    assert key == [("PRIMARY KEY (partition_key, key)",)]
    assert how == [("HASH (partition_key)",)]
    assert sorted(parts) == sorted(
        (f"kv_{i}", f"FOR VALUES WITH (modulus 100, remainder {i})") for i in range(100)
    )
    assert shown == [("p", "k\\000\\377")]


def test_the_advisory_lock_is_lakefs_own() -> None:
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"foobar") == 0xBF9CF968


def test_a_key_too_long_for_the_index_is_an_input_error(store: PostgresStore) -> None:
    with pytest.raises(ConfigError):
        store.set(b"p", b"".join(bytes([i * 7919 % 256, i * 31 % 251]) for i in range(9000)), b"v")


def _read_in_child(store: PostgresStore, answers: multiprocessing.Queue[bytes]) -> None:
    answers.put(store.get(b"p", b"forked"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads about: that is the point
def test_a_forked_child_uses_connections_of_its_own(store: PostgresStore) -> None:
    store.set(b"p", b"forked", b"yes")
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[bytes] = context.Queue()
    child = context.Process(target=_read_in_child, args=(store, answers))
    child.start()
    assert answers.get(timeout=30) == b"yes"
    child.join(30)
    assert store.get(b"p", b"forked") == b"yes"


def test_a_lost_server_is_unavailable_and_never_a_missing_key(
    postgres: PostgresServer, store: PostgresStore
) -> None:
    store.set(b"p", b"there", b"v")
    postgres.stop()
    try:
        with pytest.raises(UnavailableError):
            store.get(b"p", b"there")
        with pytest.raises(UnavailableError):
            list(store.scan(b"p"))
        with pytest.raises(UnavailableError):
            store.set_if(b"p", b"new", b"v", None)
    finally:
        postgres._start()
    assert store.get(b"p", b"there") == b"v"
    with pytest.raises(KeyNotFoundError):
        store.get(b"p", b"new")


def test_a_read_survives_connections_that_the_server_closed(
    postgres: PostgresServer, store: PostgresStore
) -> None:
    store.set(b"p", b"there", b"v")
    _end_connections(postgres)
    assert store.get(b"p", b"there") == b"v"


def test_a_write_on_a_closed_connection_is_not_repeated_behind_the_callers_back(
    postgres: PostgresServer, store: PostgresStore
) -> None:
    store.set(b"p", b"there", b"v")
    _end_connections(postgres)
    with pytest.raises(UnavailableError):
        store.set_if(b"p", b"there", b"w", b"v")
    store.set_if(b"p", b"there", b"w", b"v")  # and the next one finds a fresh connection


def test_a_read_only_store_cannot_write(url: str, store: PostgresStore) -> None:
    with PostgresStore(url, read_only=True) as reader:
        assert list(reader.scan(b"q")) == []
        with pytest.raises(RefusedError):
            reader.set(b"q", b"k", b"v")


def test_a_database_without_the_table_is_not_made_into_a_store_by_looking(postgres: PostgresServer) -> None:
    for read_only in (False, True):
        with pytest.raises(ConfigError, match="no table kv"):
            PostgresStore(postgres.new_database(), create=False, read_only=read_only)


def _end_connections(postgres: PostgresServer) -> None:
    postgres.admin(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
