"""The PostgreSQL driver beyond what every store promises: lakeFS's layout, lost connections, secrets."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from dredge.errors import ConfigError, RefusedError, UnavailableError
from dredge.kv import KeyNotFoundError, PredicateFailedError, open_store
from dredge.kv.postgres import PostgresStore, fnv1a_32
from tests.support.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync=False) as running:
        yield running


@pytest.fixture(scope="module")
def url(server: PostgresServer) -> str:
    return server.new_database()


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


def test_many_may_open_a_new_database_at_once(server: PostgresServer) -> None:
    fresh = server.new_database()
    with ThreadPoolExecutor(4) as threads:
        for opened in threads.map(PostgresStore, [fresh] * 4):
            opened.close()


def test_the_advisory_lock_is_lakefs_own() -> None:
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"foobar") == 0xBF9CF968


def test_keys_come_in_byte_order_across_pages(store: PostgresStore) -> None:
    keys = sorted({bytes([a]) + bytes([b]) * 3 for a in range(0, 256, 5) for b in range(0, 256, 5)})
    with psycopg.connect(store._url) as connection:
        connection.cursor().executemany("INSERT INTO kv VALUES ('p', %s, '')", [(key,) for key in keys])
    assert len(keys) > 2000
    assert [entry.key for entry in store.scan(b"p")] == keys
    assert [entry.key for entry in store.scan(b"p", keys[1500])] == keys[1500:]
    assert [entry.key for entry in store.scan(b"p", keys[1500] + b"\0")] == keys[1501:]


def test_a_value_may_be_empty_or_large(store: PostgresStore) -> None:
    large = bytes(range(256)) * 40_000
    store.set(b"p", b"empty", b"")
    store.set(b"p", b"large", large)
    assert store.get(b"p", b"empty") == b""
    assert store.get(b"p", b"large") == large
    store.set_if(b"p", b"large", b"small", large)
    assert store.get(b"p", b"large") == b"small"


def test_a_key_too_long_for_the_index_is_an_input_error(store: PostgresStore) -> None:
    with pytest.raises(ConfigError):
        store.set(b"p", b"".join(bytes([i * 7919 % 256, i * 31 % 251]) for i in range(9000)), b"v")


def test_exactly_one_of_many_threads_wins_a_conditional_write(store: PostgresStore) -> None:
    def attempt(number: int) -> bool:
        try:
            store.set_if(b"p", b"race", b"%d" % number, None)
        except PredicateFailedError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(40))) == 1


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
    server: PostgresServer, store: PostgresStore
) -> None:
    store.set(b"p", b"there", b"v")
    server.stop()
    try:
        with pytest.raises(UnavailableError):
            store.get(b"p", b"there")
        with pytest.raises(UnavailableError):
            list(store.scan(b"p"))
        with pytest.raises(UnavailableError):
            store.set_if(b"p", b"new", b"v", None)
    finally:
        server._start()
    assert store.get(b"p", b"there") == b"v"
    with pytest.raises(KeyNotFoundError):
        store.get(b"p", b"new")


def test_a_read_survives_connections_that_the_server_closed(
    server: PostgresServer, store: PostgresStore
) -> None:
    store.set(b"p", b"there", b"v")
    _end_connections(server)
    assert store.get(b"p", b"there") == b"v"


def test_a_write_on_a_closed_connection_is_not_repeated_behind_the_callers_back(
    server: PostgresServer, store: PostgresStore
) -> None:
    store.set(b"p", b"there", b"v")
    _end_connections(server)
    with pytest.raises(UnavailableError):
        store.set_if(b"p", b"there", b"w", b"v")
    store.set_if(b"p", b"there", b"w", b"v")  # and the next one finds a fresh connection


def test_a_scan_goes_on_while_others_write(store: PostgresStore) -> None:
    for number in range(2500):
        store.set(b"p", b"%05d" % number, b"")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            store.set(b"p", b"zzz", b"x")
            store.delete(b"p", b"zzz")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        keys = [entry.key for entry in store.scan(b"p")]
    finally:
        stop.set()
        writer.join()
    assert [key for key in keys if key != b"zzz"] == [b"%05d" % number for number in range(2500)]


def test_a_read_only_store_cannot_write(url: str, store: PostgresStore) -> None:
    with PostgresStore(url, read_only=True) as reader:
        assert list(reader.scan(b"q")) == []
        with pytest.raises(RefusedError):
            reader.set(b"q", b"k", b"v")


def test_a_database_without_the_table_is_not_made_into_a_store_by_looking(server: PostgresServer) -> None:
    for read_only in (False, True):
        with pytest.raises(ConfigError, match="no table kv"):
            PostgresStore(server.new_database(), create=False, read_only=read_only)


def test_passwords_appear_in_no_error_and_no_name(server: PostgresServer) -> None:
    for broken in (
        "postgresql://me:s3cr%ret@127.0.0.1:1/db",
        "postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=1",
        "postgresql://127.0.0.1:1/db?user=me&password=s3cret&nonsense=1",
        server.url("no_such_database", password="s3cret"),
    ):
        with pytest.raises((UnavailableError, ConfigError)) as caught:
            open_store(broken)
        told = f"{caught.value} {caught.value.__cause__ or ''}"
        assert "s3cr" not in told
    with PostgresStore(server.new_database().replace(":@", ":s3cret@")) as opened:
        assert "s3cret" not in opened.location + repr(opened)


def _end_connections(server: PostgresServer) -> None:
    server.admin(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
