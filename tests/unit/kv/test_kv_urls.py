"""Text of a key-value store's URL is in no message, whatever its form and whatever goes wrong."""

import contextlib
import socket

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.kv.opening import open_row_cleaner, open_row_reader
from lakefs_embedded.kv import open_store
from lakefs_embedded.kv.postgres import PostgresStore
from tests.support.postgres import PostgresServer
from tests.support.secrets import AWKWARD, SECRET, failure_of, words_of

_OPENERS = (open_store, open_row_reader, open_row_cleaner)
_MALFORMED = (
    *(
        f"postgresql://me:{password}@127.0.0.1:1/db"
        for password in AWKWARD
        if not set(password) & set(":\\'\"=&+;,")
    ),
    f"postgres://{SECRET}:1/x@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:{SECRET}/db",
    f"postgresql://127.0.0.1:1/db@{SECRET}",
    f"postgresql://127.0.0.1:1/db?{SECRET}",
    f"postgresql://127.0.0.1:1/db?nonsense={SECRET}",
    f"postgresql://127.0.0.1:1/postgres%3A%2F%2Fme%3A{SECRET}%40host",
    f"postgresql://me%3A{SECRET}%40127.0.0.1:1/db?host=me%3A{SECRET}%40host",
    f"host=me:{SECRET}@127.0.0.1 port=1 dbname=db",
    f"host=127.0.0.1 port=1 password=two {SECRET} dbname=db",
    f"host=127.0.0.1 port=1 password='{SECRET} dbname=db",
    f"host=127.0.0.1 port={SECRET} dbname=db",
    f"host=127.0.0.1 port=1 connect_timeout={SECRET}",
    f"password={SECRET} {SECRET}",
    f"{SECRET}",
    f"{SECRET}://host/db",
    f"mysql://me:{SECRET}@127.0.0.1/db",
    f"sqlite://me:{SECRET}@host",
    f"sqlite:{SECRET}",
    f"dynamodb://{SECRET}:x@table",
    f"dynamodb://me:{SECRET}@table?region=eu-west-1",
    f"dynamodb://table/{SECRET}",
    f"dynamodb://table?{SECRET}=1",
    f"dynamodb://table?region={SECRET}_x",
    f"dynamodb://table?region=eu-west-1&endpoint=http://me:{SECRET}@127.0.0.1:1",
    f"dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:1%3F{SECRET}",
    f"dynamodb://table?region=eu-west-1&endpoint={SECRET}",
)


@pytest.mark.parametrize("url", _MALFORMED, ids=range(len(_MALFORMED)))
def test_a_url_that_cannot_be_read_is_bad_input_and_is_not_repeated(url: str) -> None:
    for opener in _OPENERS:
        error = failure_of(lambda opener=opener: opener(url))  # type: ignore[misc]
        assert isinstance(error, ConfigError)
        assert SECRET not in words_of(error)


@pytest.mark.parametrize(
    "url",
    [
        f"host=127.0.0.1 port=1 user=lakefs password={SECRET} dbname=lakefs",
        f"user='me' password='{SECRET} /#?@[' host=127.0.0.1 port=1",
        f"postgresql://me:{SECRET}%2F%23%3F%40@127.0.0.1:1/db",
        f"postgresql://{SECRET}@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?user={SECRET}&password={SECRET}&sslpassword={SECRET}",
        f"postgresql://127.0.0.1:1/db?options=-c%20{SECRET}%3D1&passfile={SECRET}&application_name={SECRET}",
    ],
)
def test_a_store_that_does_not_answer_is_named_by_its_host(url: str) -> None:
    for opener in _OPENERS:
        error = failure_of(lambda opener=opener: opener(url))  # type: ignore[misc]
        assert isinstance(error, UnavailableError)
        assert "127.0.0.1" in str(error)
        assert SECRET not in words_of(error)


def test_a_server_that_stays_silent_is_named_without_secrets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"host=127.0.0.1 port={port} user=me password={SECRET} connect_timeout=1"
        with pytest.MonkeyPatch.context() as shorter:
            shorter.setattr("dredge.kv.postgres._CONNECT_SECONDS", 2)
            error = failure_of(lambda: open_row_reader(url))
    assert isinstance(error, UnavailableError)
    assert SECRET not in words_of(error)


def test_what_the_server_says_is_told_without_values_of_the_url(postgres: PostgresServer) -> None:
    fresh = postgres.new_database()
    PostgresStore(fresh).close()
    for url in (
        fresh.replace("postgres:@", f"{SECRET}:{SECRET}@"),  # no such role
        postgres.url("no_such_database", user=SECRET, password=SECRET),
        postgres.url("no_such_database", password=SECRET),
        f"{fresh}&options=-c%20{SECRET}%3D1",  # no such setting
    ):
        error = failure_of(lambda url=url: open_row_reader(url))  # type: ignore[misc]
        assert isinstance(error, ConfigError), error
        assert SECRET not in words_of(error)


def test_the_form_of_lakefs_own_setting_is_taken(postgres: PostgresServer) -> None:
    fresh = postgres.new_database()
    folder, name = postgres._socket(), fresh.rpartition("/")[2].partition("?")[0]
    words = f"host='{folder}' user=postgres password='{SECRET} @/' dbname={name}"
    with PostgresStore(words) as store:
        store.set(b"p", b"k", b"v")
        assert SECRET not in store.location + repr(store)
    with contextlib.closing(open_row_reader(words)) as rows, rows.view() as view:
        assert [entry.value for entry in view.scan(b"p")] == [b"v"]
        assert rows.location == store.location
    with PostgresStore(fresh, create=False) as by_url:
        assert by_url.location == store.location


@pytest.mark.parametrize(
    "words",
    [
        "pool_max_conns=10",
        "sslmode=disable&pool_max_conn_lifetime=5m&pool_min_conns=1",
        "statement_cache_capacity=0&default_query_exec_mode=simple_protocol",
        "search_path=public",
        "search_path=none,public",
        "options=-cstatement_timeout%3D9000&search_path=%22%24user%22%2C%20public",
    ],
)
def test_words_of_lakefs_own_connection_string_are_taken(postgres: PostgresServer, words: str) -> None:
    fresh = postgres.new_database()
    PostgresStore(fresh).close()
    with contextlib.closing(open_row_reader(f"{fresh}&{words}")) as rows, rows.view() as view:
        assert list(view.scan(b"p")) == []
    folder, name = postgres._socket(), fresh.rpartition("/")[2].partition("?")[0]
    if "%" not in words:
        plain = " ".join(f"{pair.replace('=', " = '")}'" for pair in words.split("&"))
        open_store(f"{plain} host={folder} user=postgres dbname={name}").close()


def test_a_word_that_nobody_knows_is_named_unless_it_may_be_a_part_of_a_password() -> None:
    for known, url in (
        (True, "postgresql://h/db?sslmode=disable&nonsense=1"),
        (True, "host=h nonsense=1 dbname=db"),
        (False, "postgresql://h/db?nonsense"),
        (False, "postgresql://h/db?password=x&nonsense=1"),
        (False, "host=h password=x nonsense=1"),
    ):
        with pytest.raises(ConfigError) as caught:
            open_row_reader(url)
        assert ("nonsense" in str(caught.value)) is known, url
