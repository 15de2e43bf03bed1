"""Modules on text: strings, regexp, path, net/url.

Source: lakeFS pkg/actions/lua/strings, regexp, path, net/url.
"""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit, urlunsplit

from dredge.graveler.actions.lua.library import Function, Library, function

_SEPARATOR = "/"
_HIDDEN_PREFIX = "_"
_PATH_SAFE = "$&+:=@"  # of those that mean something in a path, which Go leaves as they are


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _regexp(pattern: str) -> Any:
    import re2

    return re2.compile(pattern)


def _compile(pattern: str) -> dict[str, Function]:
    """Functions of one pattern. Groups that take no part are empty text."""
    compiled = _regexp(pattern)

    def groups(match: Any) -> list[str]:
        return [match.group(0), *match.groups("")]

    def limited(text: str, count: int) -> list[Any]:
        found = list(compiled.finditer(text))
        return found if count < 0 else found[:count]

    def find(text: str) -> str:
        match = compiled.search(text)
        return match.group(0) if match else ""

    def find_submatch(text: str) -> list[str]:
        match = compiled.search(text)
        return groups(match) if match else []

    return {
        "find_all": function("u i", lambda text, count: [each.group(0) for each in limited(text, count)]),
        "find_all_submatch": function(
            "u i", lambda text, count: [groups(each) for each in limited(text, count)]
        ),
        "find": function("u", find),
        "find_submatch": function("u", find_submatch),
    }


def _escape(text: str) -> str:
    return "".join(f"\\{char}" if char in r"\.+*?()|[]{}^$" else char for char in text)


def _parse_path(path: str, separator: str | None) -> dict[str, str]:
    separator = _SEPARATOR if separator is None else separator
    if path.endswith(separator):
        path = path[:-1]
    parent, found, name = path.rpartition(separator)
    return {"parent": parent + found, "base_name": name}


def _join(separator: str, *parts: str) -> str:
    joined = ""
    for number, part in enumerate(parts):
        part = part.removeprefix(separator) if number else part
        last = number == len(parts) - 1
        joined += part if last or part.endswith(separator) else part + separator
    return joined


def _is_hidden(path: str, separator: str | None, prefix: str | None) -> bool:
    prefix = _HIDDEN_PREFIX if prefix is None else prefix
    while path:
        parsed = _parse_path(path, separator)
        if parsed["base_name"].startswith(prefix):
            return True
        if parsed["parent"] == path:
            return False
        path = parsed["parent"]
    return False


def _folder_of(path: str) -> str:
    folder = path[: path.rfind("/") + 1]
    return posixpath.normpath(folder) if folder else "."


def _parse_url(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    return {
        "host": parts.netloc.rpartition("@")[2],
        "path": parts.path,
        "scheme": parts.scheme,
        "query": parts.query,
        "fragment": parts.fragment,
    }


def _build_url(scheme: str, host: str, path: str | None, query: str | None, fragment: str | None) -> str:
    return urlunsplit((scheme, host, quote(path or "", safe="/" + _PATH_SAFE), query or "", fragment or ""))


MODULES: dict[str, Library] = {
    "strings": {
        "split": function("u u", _split),
        "trim": function("u", str.strip),
        "replace": function("u u u i", str.replace),
        "has_prefix": function("s s", bytes.startswith),
        "has_suffix": function("s s", bytes.endswith),
        "contains": function("s s", bytes.__contains__),
    },
    "regexp": {
        "match": function("u u", lambda pattern, text: _regexp(pattern).search(text) is not None),
        "quote_meta": function("u", _escape),
        "compile": function("u", _compile),
    },
    "path": {
        "parse": function("u u?", _parse_path),
        "join": function("u u*", _join),
        "is_hidden": function("u u? u?", _is_hidden),
        "default_separator": function("", lambda: _SEPARATOR),
        "extract_dir_name": function("u", _folder_of),
    },
    "net/url": {
        "parse": function("u", _parse_url),
        "query_unescape": function("u", unquote_plus),
        "path_escape": function("u", lambda path: quote(path, safe=_PATH_SAFE)),
        "build_url": function("u u u? u? u?", _build_url),
    },
}
