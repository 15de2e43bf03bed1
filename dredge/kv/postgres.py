"""PostgreSQL driver with the table of a real lakeFS; connection texts of libpq and lakeFS.

Messages show hosts, ports and database of a connection text, and never other values such as passwords.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dredge import causes
from dredge.errors import ConfigError, DredgeError, RefusedError, UnavailableError
from dredge.kv.rows import check_postgres_url, unknown_words, without_foreign_words
from dredge.process import need

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("dredge")

_NUMBERS = re.compile(r"(\d*,)*\d*")
_HOSTS = re.compile(r"(?:(?:[\w.:%-]*|[/@][^@=,]*)(?:,|$))*")
_SHAPES = {
    "host": _HOSTS,
    "hostaddr": _HOSTS,
    "port": _NUMBERS,
    "dbname": re.compile(r"[^=@/:]*"),
    "connect_timeout": _NUMBERS,
    "sslmode": re.compile(r"[a-z-]*"),
    "target_session_attrs": re.compile(r"[a-z-]*"),
}


_SEARCH_PATH = re.compile(r"(?:^|\s)(?:-c\s*|--)search_path=((?:\\.|[^\s\\])+)")


def read_words(url: str) -> dict[str, str]:
    """Parse a PostgreSQL connection text (`postgresql://…` or `host=… dbname=…`) into libpq's words.

    lakeFS's own words are removed, and `search_path` becomes one of `options`. Raises ConfigError: the text is invalid;
    the message shows none of its values."""
    need("psycopg", "kv")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    check_postgres_url(url)
    of_libpq, foreign = without_foreign_words(url)
    search_path = foreign.pop("search_path", None)
    if foreign:
        log.info("ignored words of the PostgreSQL URL, which only lakeFS uses: %s", ", ".join(foreign))
    try:
        found = conninfo_to_dict(of_libpq)
    except psycopg.ProgrammingError:
        # libpq's message repeats parts of the URL, possibly the password.
        known = {item.keyword.decode() for item in psycopg.pq.Conninfo.get_defaults()}
        unknown = unknown_words(of_libpq, known)
        why = (
            f"libpq does not know the word {', '.join(unknown)}" if unknown else "check its percent-encoding"
        )
        raise ConfigError(
            f"the PostgreSQL URL cannot be parsed: {why}; valid words are libpq's, lakeFS's pool_…, and search_path."
            " Nothing was changed."
        ) from None
    if search_path:
        path = re.sub(r"([\\\s])", r"\\\1", search_path)
        found["options"] = f"{found.get('options') or ''} -csearch_path={path}".strip()
    words = {name: str(value) for name, value in found.items() if value not in (None, "")}
    wrong = [name for name, shape in _SHAPES.items() if not shape.fullmatch(words.get(name, ""))]
    if wrong:
        # These are shown in messages and reports, so a password that slipped into one must not pass.
        raise ConfigError(
            f"the PostgreSQL URL has an invalid {' and an invalid '.join(wrong)}: check its percent-encoding. Nothing"
            " was touched."
        )
    return words


def search_path_of(words: Mapping[str, str]) -> str | None:
    """Return the `search_path` in words from `read_words`; None if they have none."""
    found = _SEARCH_PATH.findall(words.get("options", ""))
    return re.sub(r"\\(.)", r"\1", found[-1]) if found else None


def location_of(words: Mapping[str, str]) -> str:
    """Return the store's URL for reports: hosts, ports and database."""
    hosts, ports = words.get("host", words.get("hostaddr", "")).split(","), words.get("port", "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = [_place(host, port) for host, port in zip(hosts, ports, strict=False)]
    return f"postgresql://{','.join(places)}/{words.get('dbname', '')}"


def _place(host: str, port: str) -> str:
    if host.startswith(("/", "@")):
        return host  # a folder with a socket
    return (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")


def hidden_values(words: Mapping[str, str]) -> re.Pattern[str] | None:
    """Return a pattern for values hidden from messages."""
    values = {value for name, value in words.items() if name not in _SHAPES}
    values |= set(re.findall(r"[^\s=-]{2,}", words.get("options", "")))  # the server names single settings
    values |= {quote(value, safe="") for value in values}
    if not values:
        return None
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


PAGE_ROWS = 1000
POOL_LIMIT = 16
_CONNECT_SECONDS = 10
_NOT_LET_IN = (
    # A refusal to connect has no code.
    (
        re.compile(r"FATAL: +(password authentication failed|role .* does not exist|no pg_hba.conf entry)"),
        causes.CREDENTIALS,
    ),
    (re.compile(r"FATAL: +database .* does not exist"), causes.NO_CONTAINER),
    (re.compile(r"FATAL: +(unrecognized configuration|unsupported startup) parameter"), causes.REJECTED),
    (
        re.compile(
            r"certificate verify failed|server certificate for .* does not match|root certificate file"
        ),
        causes.CERTIFICATE,
    ),
)
_BY_STATE = {
    "42P01": causes.NO_CONTAINER,
    "3D000": causes.NO_CONTAINER,
    "28P01": causes.CREDENTIALS,
    "28000": causes.CREDENTIALS,
    "42501": causes.DENIED,
    "42704": causes.REJECTED,
}
_CERTIFICATE_HINT = (
    "Set sslrootcert, in the URL or the connection's extra, to the PEM file of the certificate authority, and check"
    " the server's name and the dates of its certificate."
)
_WAIT_SECONDS = 60

PAGE_FROM = "SELECT key, value FROM kv WHERE partition_key = %s AND key >= %s ORDER BY key LIMIT %s"
PAGE_AFTER = "SELECT key, value FROM kv WHERE partition_key = %s AND key > %s ORDER BY key LIMIT %s"


class PostgresConnections:
    """Connections to a PostgreSQL database with the table; thread-safe.

    A broken connection is dropped together with all idle ones. A read is retried once on a new connection. A write is
    not, because the first attempt may have succeeded: it raises `UnavailableError`, and the caller must read again.
    `url`: `postgresql://user@host/database`; libpq's variables (`PGPASSWORD`, `PGPASSFILE` …) work too. `read_only`:
    run every statement in a read-only transaction, so that the database refuses writes."""

    def __init__(self, url: str, read_only: bool = False) -> None:
        words = read_words(url)
        self.location = location_of(words)
        self._hidden = hidden_values(words)
        self._url = url
        self._words = words
        self._read_only = read_only
        self._closed = False
        self._start_pool()
        try:
            self._check_search_path()
            self._find_table()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def close(self) -> None:
        self._closed = True
        if self._pid == os.getpid():
            self._drop_idle()

    def read(self, statement: str, params: Sequence[Any]) -> list[Any]:
        """Run a read; retried once on a new connection if the first one is broken."""
        with self.errors(), self.connection() as connection:
            try:
                return self._fetch(connection, statement, params)
            except _lost() as error:
                if not connection.broken:
                    raise
                broken = error
        with self.errors(), self.connection() as connection:
            try:
                return self._fetch(connection, statement, params)
            except _lost() as error:
                raise error from broken

    def write(self, statement: str, params: Sequence[bytes]) -> int:
        """Run a write, once; returns the number of changed rows."""
        with self.errors(), self.connection() as connection, self._transaction(connection):
            return connection.execute(statement, params).rowcount

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection outside the pool, in autocommit mode."""
        import psycopg
        from psycopg.conninfo import make_conninfo

        with self.errors():
            connection = psycopg.connect(
                make_conninfo("", **self._words),
                autocommit=True,
                prepare_threshold=None,  # a prepared statement stays in the pooler's session
                connect_timeout=_CONNECT_SECONDS,
                application_name="dredge",
            )
            # A word of each BEGIN; nothing is sent to the server here.
            connection.read_only = self._read_only or None
            return connection

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Take a connection from the pool for the duration of the block; a broken one does not return to the pool."""
        if self._closed:
            raise ConfigError(f"the store {self.location} is closed")
        if self._pid != os.getpid():
            # A connection must not cross a fork, not even to be closed: closing it would end the parent's.
            _abandoned.append(self._idle)
            self._start_pool()
        if not self._slots.acquire(timeout=_WAIT_SECONDS):
            raise UnavailableError(f"no free connection to {self.location} within {_WAIT_SECONDS} s")
        try:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self.connect()
            try:
                yield connection
            finally:
                if connection.broken:
                    self._drop_idle()  # the server is down, so idle connections are broken too
                if connection.closed or self._closed or connection.info.transaction_status != 0:
                    connection.close()
                else:
                    self._idle.put(connection)
        finally:
            self._slots.release()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Raise Dredge's errors for the driver's. They are unchained, because the driver's errors may show values of
        the URL."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            words = f"{self.location}: {self._text(error)}"
            if error.sqlstate == "25006":  # a write on a read-only connection, or on a standby
                raise RefusedError(words) from None
            cause = _cause(error)
            if cause is None:
                raise DredgeError(words) from None
            raise cause.error(words, _CERTIFICATE_HINT if cause is causes.CERTIFICATE else "") from None

    def _text(self, error: psycopg.Error) -> str:
        text = " ".join(str(error).split())
        return self._hidden.sub("***", text) if self._hidden is not None else text

    def _fetch(self, connection: psycopg.Connection[Any], statement: str, params: Sequence[Any]) -> list[Any]:
        with self._transaction(connection):
            return connection.cursor(binary=True).execute(statement, params).fetchall()

    def _transaction(self, connection: psycopg.Connection[Any]) -> contextlib.AbstractContextManager[object]:
        # A statement outside a transaction could only be made read-only by a setting of the session.
        return connection.transaction() if self._read_only else contextlib.nullcontext()

    def _start_pool(self) -> None:
        self._idle: queue.LifoQueue[psycopg.Connection[Any]] = queue.LifoQueue()
        self._slots = threading.BoundedSemaphore(POOL_LIMIT)
        self._pid = os.getpid()

    def _drop_idle(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _check_search_path(self) -> None:
        # A pooler may drop the settings of a session, and then the table may be another installation's.
        wanted = search_path_of(self._words)
        if wanted is None:
            return
        ((found,),) = self.read("SELECT current_setting('search_path')", ())
        if found != wanted:
            raise ConfigError(
                f"{self.location}: the session's search_path differs from the connection's: a pooler such as PgBouncer"
                " (ignore_startup_parameters) drops it. Nothing was changed. Set it for the role (ALTER ROLE … SET"
                " search_path) and remove it from the connection, or connect without the pooler."
            )

    def _find_table(self) -> None:
        if not self.read("SELECT 1 FROM pg_class WHERE oid = to_regclass('kv')", ()):
            raise ConfigError(
                f"{self.location} has no table kv in this user's search_path. Either it is not the database of a"
                " lakeFS server, or lakeFS's connection string has a search_path that this one lacks"
            )


def _cause(error: psycopg.Error) -> causes.Cause | None:
    """The cause of an error of the driver; None for a wrong statement of Dredge."""
    state, text = error.sqlstate or "", " ".join(str(error).split())
    if not state:
        found = next((cause for pattern, cause in _NOT_LET_IN if pattern.search(text)), None)
        if found is not None:
            return found
    if state in _BY_STATE:
        return _BY_STATE[state]
    if state.startswith(("54", "22")):
        return causes.REJECTED  # such as a key that is too long
    if not isinstance(error, _lost()):
        return None
    if state:
        return causes.BUSY
    began = "connection failed" in text or "connection timeout" in text or "failed to resolve" in text
    return causes.UNREACHABLE if began else causes.NO_ANSWER


def _lost() -> tuple[type[Exception], ...]:
    import psycopg

    return (psycopg.OperationalError, psycopg.InterfaceError)


_abandoned: list[object] = []
"""A forked child's copies of its parent's connections, kept so that the child never closes them."""
