"""Patterns of branch names: `*` and `?` match within one part between slashes, `[a-z]` one character.

Source: Go's path.Match, which lakeFS uses.
"""

from __future__ import annotations

import re
from functools import cache

from dredge.graveler.actions.errors import ActionFileError


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern as a whole.

    Raises:
        ActionFileError: the pattern is malformed.
    """
    return _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    rest = pattern
    while rest:
        char, rest = rest[0], rest[1:]
        if char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "[":
            part, rest = _class(rest)
            parts.append(part)
        elif char == "\\":
            if not rest:
                raise _malformed()
            parts.append(re.escape(rest[0]))
            rest = rest[1:]
        else:
            parts.append(re.escape(char))
    return re.compile("".join(parts), re.DOTALL)


def _class(rest: str) -> tuple[str, str]:
    """Translate what follows a "["; gives the rest behind its "]"."""
    negated = rest.startswith("^")
    rest = rest.removeprefix("^")
    ranges: list[str] = []
    while not ranges or not rest.startswith("]"):
        low, rest = _char(rest)
        high = low
        if rest.startswith("-"):
            high, rest = _char(rest[1:])
        if low <= high:  # a range the wrong way round matches nothing
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            ranges.append("")
    inside = "".join(ranges)
    if not inside:
        return (r"[\s\S]" if negated else r"(?!)"), rest[1:]
    return f"[{'^' if negated else ''}{inside}]", rest[1:]


def _char(rest: str) -> tuple[str, str]:
    if not rest or rest[0] in "-]":
        raise _malformed()
    if rest[0] == "\\":
        rest = rest[1:]
    if len(rest) < 2:
        raise _malformed()  # no "]" can follow
    return rest[0], rest[1:]


def _malformed() -> ActionFileError:
    return ActionFileError("syntax error in pattern")
