"""The words of a PostgreSQL connection text, as libpq and lakeFS write them, and what of them a message may show."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from urllib.parse import quote

from dredge.errors import ConfigError
from dredge.kv.urls import check_postgres_url, unknown_words, without_foreign_words
from dredge.process import need

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
    """Read a PostgreSQL connection text; lakeFS's own words are left out, and `search_path` becomes one of `options`.

    Args:
        url: `postgresql://…` or `host=… dbname=…`.

    Returns:
        libpq's words with their values.

    Raises:
        ConfigError: it cannot be read; the message repeats no value of it.
    """
    need("psycopg", "kv")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    check_postgres_url(url)
    of_libpq, foreign = without_foreign_words(url)
    search_path = foreign.pop("search_path", None)
    if foreign:
        log.info("words of the PostgreSQL URL that are lakeFS's own and not heeded: %s", ", ".join(foreign))
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
            f"the PostgreSQL URL cannot be parsed: {why}; each word must be one of libpq's, pool_… of lakeFS, or"
            " search_path. Nothing was touched."
        ) from None
    if search_path:
        path = re.sub(r"([\\\s])", r"\\\1", search_path)
        found["options"] = f"{found.get('options') or ''} -csearch_path={path}".strip()
    words = {name: str(value) for name, value in found.items() if value not in (None, "")}
    wrong = [name for name, shape in _SHAPES.items() if not shape.fullmatch(words.get(name, ""))]
    if wrong:
        # These are shown in messages and reports, so a password that slipped into one must not pass.
        raise ConfigError(
            f"the {' and the '.join(wrong)} of the PostgreSQL URL cannot be one: check its percent-encoding. Nothing"
            " was touched."
        )
    return words


def search_path_of(words: Mapping[str, str]) -> str | None:
    """The `search_path` that words ask a session for; None for none.

    Args:
        words: as `read_words` gave them.
    """
    found = _SEARCH_PATH.findall(words.get("options", ""))
    return re.sub(r"\\(.)", r"\1", found[-1]) if found else None


def location_of(words: Mapping[str, str]) -> str:
    """The store's URL for reports: hosts, ports and database."""
    hosts, ports = words.get("host", words.get("hostaddr", "")).split(","), words.get("port", "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = [_place(host, port) for host, port in zip(hosts, ports, strict=False)]
    return f"postgresql://{','.join(places)}/{words.get('dbname', '')}"


def _place(host: str, port: str) -> str:
    if host.startswith(("/", "@")):
        return host  # a folder with a socket
    return (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")


def hidden_values(words: Mapping[str, str]) -> re.Pattern[str] | None:
    """Return a pattern of the values that a message must not have."""
    values = {value for name, value in words.items() if name not in _SHAPES}
    values |= set(re.findall(r"[^\s=-]{2,}", words.get("options", "")))  # the server names single settings
    values |= {quote(value, safe="") for value in values}
    if not values:
        return None
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
