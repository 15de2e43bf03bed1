"""Access to all rows of a store: list partitions, read consistently, and delete rows with unchanged values. Readers get
a `RowReader`; only the trash cleaner gets a `RowCleaner`.

URLs come from users and from lakeFS's settings. Messages show no part of a URL.
"""

import codecs
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from msgspec import Struct

from dredge.errors import ConfigError, ConflictError

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class Entry(NamedTuple):
    """One key and its value."""

    key: bytes
    value: bytes


class Row(NamedTuple):
    """One row of a store."""

    partition: bytes
    key: bytes
    value: bytes


class Guard(NamedTuple):
    """A condition of a delete: this key has exactly this value or, with None, does not exist."""

    partition: bytes
    key: bytes
    value: bytes | None


class GuardFailedError(ConflictError):
    """A guard failed, so its transaction deleted nothing; read the store again before another attempt."""

    kind = "guard_failed"

    def __init__(self, message: str, outcomes: Sequence[bool] = ()) -> None:
        super().__init__(message)
        self.outcomes = list(outcomes)
        """Outcomes of the rows in earlier transactions, in the form that `delete_rows` returns."""


class ReadRate(Struct, frozen=True):
    """Limits for scanning a table of a store that charges for reads."""

    units_per_second: float | None = None  # DynamoDB read capacity units over all segments; None is unlimited
    segments: int = 4  # parts of the table that are scanned in parallel


class RowView(Protocol):
    """A set of reads, consistent if the store has snapshots."""

    consistent: bool
    """Whether all reads of this view see the same point in time. If not, later reads see later states: read possible
    trash first, and references last."""

    def partitions(self) -> Iterator[bytes]:
        """Yield every partition with a row, once, in byte order."""
        ...

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Yield the rows of a partition from `start` (inclusive), in byte order of the keys."""
        ...


class RowReader(Protocol):
    """A store whose rows can all be read."""

    location: str
    """The store's name in reports and state files, without credentials."""

    def view(self) -> AbstractContextManager[RowView]:
        """Open a view. Close it soon, because the database retains old row versions while it is open."""
        ...

    def clock(self) -> datetime | None:
        """Return the store's time (aware UTC); None for a store without a clock."""
        ...

    def own_id(self) -> str:
        """Return the database's id, which changes when the database is restored from a backup; "" without an id."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RowCleaner(RowReader, Protocol):
    """A store whose rows can be deleted and restored, each under a condition."""

    guards_max: int
    """Maximum number of guards per call of `delete_rows`."""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        """Delete rows with exactly the given values.

        Args:
            guards: conditions that every transaction checks; a transaction deletes as many rows as the store allows.

        Returns:
            For each row, in order, whether it was deleted; False if its value differs or the row is missing.

        Raises:
            GuardFailedError: a guard failed. Rows of earlier transactions of this call are deleted; see its
                `outcomes`.
            UnavailableError: the store did not answer, so it is unknown which rows were deleted.
        """
        ...

    def insert_row(self, row: Row) -> bool:
        """Write a row if its key does not exist; returns whether it was written."""
        ...


def show(name: bytes) -> str:
    """Format a partition or key as text; bytes that are not UTF-8 appear as \\xNN."""
    return name.decode("utf-8", "backslashreplace")


def show_key(partition: bytes, key: bytes) -> str:
    """Format the name of a row as text."""
    return f"{show(partition)} · {show(key)}"


def name_of(text: str) -> bytes:
    r"""Read a partition or key as `show` formats it."""

    def byte(found: re.Match[bytes]) -> bytes:
        return codecs.decode(found[1], "hex")

    return _ESCAPE.sub(byte, text.encode("utf-8", "surrogateescape"))


_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_WORDS = re.compile(r"\s*\w+\s*=")
_HOST = r"(?:\[[0-9a-fA-F:.%]+\]|[\w.~%-]*)(?::\d{0,5})?"
_POSTGRES_URL = re.compile(
    rf"postgres(?:ql)?://(?:[^/?#@\[\]\s]*@)?{_HOST}(?:,{_HOST})*(?:/[^/?#@\[\]\s]*)?(?:\?[^?#@\[\]\s]*)?"
)
"""Matches a URL that all parsers split in the same way. Unless percent-encoded, a `/`, `#`, `?`, `@` or `[` in a
password ends it early, and libpq, lakeFS and Python then read different hosts."""


def driver_of(url: str, known: Collection[str]) -> str:
    """Return the driver of a URL; `postgresql` also for `host=… password=…`, a form of lakeFS's setting."""
    found = _SCHEME.match(url)
    if found is None and _WORDS.match(url):
        return "postgresql"
    if found is None or found[1] not in known:
        raise ConfigError(
            "the URL of the key-value store (DREDGE_KV_URL or the command's argument) is of no known kind: use"
            f" {', '.join(f'{name}://…' for name in known)} or PostgreSQL's host=… dbname=…. Nothing was changed."
        )
    return found[1]


def check_postgres_url(url: str) -> None:
    """Refuse an ambiguous PostgreSQL URL; raises ConfigError."""
    if _SCHEME.match(url) and not _POSTGRES_URL.fullmatch(url):
        raise ConfigError(
            "the PostgreSQL URL does not have the form postgresql://user:password@host:port/database?word=value."
            " Percent-encode spaces and characters such as / # ? @ [ % in user, password and values (@ is %40), or"
            " set the password in PGPASSWORD. Nothing was changed."
        )


def absolute_file(url: str) -> str:
    """Return the decoded path of `sqlite:///folder/file.db`; raises ConfigError for a relative path."""
    path = url.removeprefix("sqlite://")
    if not path.startswith("/"):
        raise ConfigError("a sqlite:// URL must have an absolute path: sqlite:///folder/file.db")
    return path


_POOL = re.compile(r"pool_\w+")
_OF_PGX = frozenset({"statement_cache_capacity", "description_cache_capacity", "default_query_exec_mode"})
_WORD = re.compile(r"(\w+)\s*=\s*((?:\\.|[^\s'\\])+|'(?:\\.|[^'\\])*'|)", re.DOTALL)


def without_foreign_words(url: str) -> tuple[str, dict[str, str]]:
    """Remove the words of lakeFS's driver (pgx) from a PostgreSQL connection text.

    libpq does not know these words. pgx sends other unknown words, such as `search_path`, to the server as settings of
    the session. Here `search_path` becomes one of libpq's `options`; libpq refuses all others. Returns the text without
    them, and the removed words with their plain values."""
    taken: dict[str, str] = {}

    def is_kept(name: str, value: str) -> bool:
        foreign = _POOL.fullmatch(name) is not None or name in _OF_PGX or name == "search_path"
        if foreign:
            taken[name] = value
        return not foreign

    if _SCHEME.match(url):
        place, found, query = url.partition("?")
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        kept = "&".join("".join(pair) for pair in pairs if is_kept(unquote(pair[0]), unquote(pair[2])))
        return (f"{place}?{kept}" if found and kept else place), taken
    words = [match for match in _WORD.finditer(url) if not is_kept(match[1], _bare(match[2]))]
    for match in reversed(words):
        url = url[: match.start()] + url[match.end() :]
    return url, taken


def unknown_words(url: str, known: Collection[str]) -> list[str]:
    """Return unknown words of a PostgreSQL connection text, except after a password, whose parts they may be."""
    if _SCHEME.match(url):
        pairs = [pair.partition("=") for pair in url.partition("?")[2].split("&")]
        names = [unquote(name) for name, equals, _ in pairs if equals]
    else:
        names = [match[1] for match in _WORD.finditer(url)]
    before = itertools.takewhile(lambda name: "pass" not in name, names)
    return [name for name in before if name not in known and name.isidentifier()]


def _bare(value: str) -> str:
    bare = value[1:-1] if value.startswith("'") else value
    return re.sub(r"\\(.)", r"\1", bare)
