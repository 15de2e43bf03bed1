"""URLs of key-value stores, as users and lakeFS write them. No message has any text of one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from urllib.parse import unquote

from dredge.errors import ConfigError

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_WORDS = re.compile(r"\s*\w+\s*=")
_HOST = r"(?:\[[0-9a-fA-F:.%]+\]|[\w.~%-]*)(?::\d{0,5})?"
_POSTGRES_URL = re.compile(
    rf"postgres(?:ql)?://(?:[^/?#@\[\]\s]*@)?{_HOST}(?:,{_HOST})*(?:/[^/?#@\[\]\s]*)?(?:\?[^?#@\[\]\s]*)?"
)
"""A URL that every reader divides in the same way. A `/`, `#`, `?`, `@` or `[` in a password that is not
percent-encoded ends the password early: libpq, lakeFS and Python then take different parts for the host."""


def driver_of(url: str, known: Collection[str]) -> str:
    """The driver of a URL; `postgresql` also for `host=… password=…`, a form of lakeFS's setting."""
    found = _SCHEME.match(url)
    if found is None and _WORDS.match(url):
        return "postgresql"
    if found is None or found[1] not in known:
        raise ConfigError(
            "the URL of the key-value store (DREDGE_KV_URL or the command's argument) names no known kind of store:"
            f" {', '.join(f'{name}://…' for name in known)} and PostgreSQL's host=… dbname=… are known. Nothing was"
            " touched."
        )
    return found[1]


def check_postgres_url(url: str) -> None:
    """Refuse an ambiguous PostgreSQL URL; raises ConfigError."""
    if _SCHEME.match(url) and not _POSTGRES_URL.fullmatch(url):
        raise ConfigError(
            "the PostgreSQL URL is not postgresql://user:password@host:port/database?word=value. Characters such as"
            " / # ? @ [ % and spaces in a user, a password or a value are percent-encoded (@ is %40); or leave the"
            " password out (PGPASSWORD). Nothing was touched."
        )


def absolute_file(url: str) -> str:
    """The path of `sqlite:///folder/file.db`, percent-encoded; raises ConfigError for a relative path."""
    path = url.removeprefix("sqlite://")
    if not path.startswith("/"):
        raise ConfigError("a sqlite:// URL must name an absolute file: sqlite:///folder/file.db")
    return path


_POOL = re.compile(r"pool_\w+")
_OF_PGX = frozenset({"statement_cache_capacity", "description_cache_capacity", "default_query_exec_mode"})
_WORD = re.compile(r"(\w+)\s*=\s*((?:\\.|[^\s'\\])+|'(?:\\.|[^'\\])*'|)", re.DOTALL)


def without_foreign_words(url: str) -> tuple[str, dict[str, str]]:
    """Remove the words of lakeFS's driver (pgx) from a PostgreSQL connection text.

    libpq does not know them. pgx sends unknown words, such as `search_path`, to the server as settings of the session;
    here `search_path` becomes one of libpq's `options`, and libpq refuses other unknown words.

    Returns:
        The text without them, and the removed words with their plain values.
    """
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
    """Unknown words of a PostgreSQL connection text. A word after a password may be a part of it, and is left out."""
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
