"""Functions that scripts can call: what arguments they take, and how they fail.

"split": function("s s", split)          two strings
"format_iso": function("n s?", …)        a number, and perhaps a string

s   bytes; a number is written out       u   the same as text
n   a number      i   a whole number     f   anything, as true or false
t   a table, as dict or list             o   a table or nil            a   text or a table
?   may be missing, which gives None     *   any number of them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dredge.graveler.actions.lua.values import LuaValueError, Values, number_text


@dataclass(frozen=True, slots=True)
class Returns:
    """Several results of one function."""

    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function for scripts.

    Attributes:
        kinds: of its arguments.
        call: takes them as Python values; what it raises becomes an error of Lua.
    """

    kinds: tuple[str, ...]
    call: Callable[..., Any]

    def bound(self, name: str, values: Values) -> Callable[..., tuple[Any, ...]]:
        """What Lua calls: it answers true and the results, or false and a message."""

        def answer(*arguments: Any) -> tuple[Any, ...]:
            try:
                result = self.call(*self._arguments(name, arguments, values))
                several = result.values if isinstance(result, Returns) else (result,)
                return (True, *(values.push(each) for each in several))
            except Exception as error:  # the script sees it, and fails by it unless it can do without
                return False, (str(error) or type(error).__name__).encode("utf-8", "replace")

        return answer

    def _arguments(self, name: str, given: Sequence[Any], values: Values) -> list[Any]:
        taken: list[Any] = []
        for number, kind in enumerate(self.kinds):
            if kind.endswith("*"):
                rest = given[number:]
                return taken + [
                    _argument(name, number + at, kind[0], each, values) for at, each in enumerate(rest)
                ]
            value = given[number] if number < len(given) else None
            if value is None and kind.endswith("?"):
                taken.append(None)
            else:
                taken.append(_argument(name, number, kind[0], value, values))
        return taken


type Library = Mapping[str, Function]


def function(kinds: str, call: Callable[..., Any]) -> Function:
    """Make a function; see the module."""
    return Function(tuple(kinds.split()), call)


def _argument(name: str, number: int, kind: str, value: Any, values: Values) -> Any:
    if kind == "f":
        return value is not None and value is not False
    if kind in "su" or (kind == "a" and isinstance(value, bytes)):
        return _string(name, number, kind, value, values)
    if kind in "ni":
        return _number(name, number, kind, value, values)
    if kind == "o" and value is None:
        return None
    if values.type_name(value) != "table":
        got = values.type_name(value)
        raise LuaValueError(f"need a table at index {number + 1}, got {got}: cannot pull go type into lua")
    return values.pull(value)


def _string(name: str, number: int, kind: str, value: Any, values: Values) -> str | bytes:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = number_text(value).encode()
    if not isinstance(value, bytes):
        raise _mismatch(name, number, "string", values.type_name(value))
    return value if kind == "s" else value.decode("utf-8", "replace")


def _number(name: str, number: int, kind: str, value: Any, values: Values) -> float:
    if isinstance(value, bytes):
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(name, number, "number", values.type_name(value))
    return int(value) if kind == "i" else value


def _mismatch(name: str, number: int, wanted: str, got: str) -> LuaValueError:
    return LuaValueError(f"bad argument #{number + 1} to '{name}' ({wanted} expected, got {got})")
