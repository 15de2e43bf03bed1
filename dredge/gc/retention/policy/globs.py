"""Patterns for branch names and for paths.

    *        any text without "/"               logs/*.txt matches logs/a.txt, not logs/x/a.txt
    **       any text, "/" too                  logs/** matches logs/a.txt and logs/x/a.txt
    **/      any folders, or none               **/a.txt matches a.txt and x/y/a.txt
    ?        one character but "/"
    [a-c]    one of these; [!a-c] one of the others but "/"
    \\x       x itself

A pattern must match the whole text. One that ends with "/" means everything below. Letters are compared as
they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dredge.errors import ConfigError

_CLASS = re.compile(r"\[(!?)(\]?[^\]]*)\]")


def compile_glob(glob: str) -> re.Pattern[str]:
    """Make a pattern's regular expression; match with `fullmatch`.

    Args:
        glob: the pattern.

    Raises:
        ConfigError: it is empty, or a bracket or backslash in it has no partner.
    """
    if not glob:
        raise ConfigError("the pattern is empty; '**' matches everything")
    text, regex, place = glob + "**" if glob.endswith("/") else glob, "", 0
    while place < len(text):
        piece, place = _piece(text, place, glob)
        regex += piece
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise ConfigError(f"the pattern {glob!r} cannot be read: {error}") from None


def _piece(text: str, place: int, glob: str) -> tuple[str, int]:
    """The regular expression of what begins at a place, and where the next piece begins."""
    character = text[place]
    if character == "*":
        return _stars(text, place)
    if character == "?":
        return "[^/]", place + 1
    if character == "\\":
        if place + 1 == len(text):
            raise ConfigError(f"the pattern {glob!r} ends with a backslash; write \\\\ for one in a name")
        return re.escape(text[place + 1]), place + 2
    if character == "[":
        match = _CLASS.match(text, place)
        if match is None:
            raise ConfigError(f"the pattern {glob!r} has a '[' without ']'; write \\[ for one in a name")
        members = re.sub(r"([\\\[\]^&~|])", r"\\\1", match[2])
        return (f"(?!/)[^{members}]" if match[1] else f"(?!/)[{members}]"), match.end()
    return re.escape(character), place + 1


def _stars(text: str, place: int) -> tuple[str, int]:
    end = place
    while end < len(text) and text[end] == "*":
        end += 1
    if end - place == 1:
        return "[^/]*", end
    begins_folder = place == 0 or text[place - 1] == "/"
    if begins_folder and end < len(text) and text[end] == "/":
        return "(?:.*/)?", end + 1
    return ".*", end


def literal_prefix(glob: str) -> str:
    """The text that everything a pattern matches begins with."""
    return re.split(r"[*?\[\\]", glob, maxsplit=1)[0]


def may_match(globs: Iterable[str], first: bytes, last: bytes) -> bool:
    """Whether some path from `first` to `last` may match one of some patterns.

    Args:
        globs: patterns.
        first: UTF-8, the smallest path there is.
        last: the largest.
    """
    for glob in globs:
        prefix = literal_prefix(glob).encode()
        if first[: len(prefix)] <= prefix <= last:
            return True
    return False
