"""URLs of key-value stores, as users and lakeFS write them. No message repeats any text of one."""

from __future__ import annotations

import re
from collections.abc import Collection

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
    """Return the driver of a URL, `postgresql` also for `host=… password=…`, which lakeFS's own setting may have.

    Args:
        url: of a store.
        known: names of drivers, in the order of the message.

    Raises:
        ConfigError: it names no known driver.
    """
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
    """Refuse a PostgreSQL URL that can be divided in two ways.

    Raises:
        ConfigError: a character of a part is not percent-encoded.
    """
    if _SCHEME.match(url) and not _POSTGRES_URL.fullmatch(url):
        raise ConfigError(
            "the PostgreSQL URL is not postgresql://user:password@host:port/database?word=value. Characters such as"
            " / # ? @ [ % and spaces in a user, a password or a value are percent-encoded (@ is %40); or leave the"
            " password out (PGPASSWORD). Nothing was touched."
        )


def absolute_file(url: str) -> str:
    """Return the path of `sqlite:///folder/file.db`, still percent-encoded.

    Raises:
        ConfigError: the path is not absolute.
    """
    path = url.removeprefix("sqlite://")
    if not path.startswith("/"):
        raise ConfigError("a sqlite:// URL must name an absolute file: sqlite:///folder/file.db")
    return path
