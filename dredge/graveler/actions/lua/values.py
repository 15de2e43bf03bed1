"""Values between Python and Lua.

    None, bool, numbers       the same; every number of Lua is a float, whole ones come back as int
    str, bytes                a Lua string of bytes
    list, tuple               a table made by `array()`, so that it comes back as a list
    mapping                   a table; only text and numbers can be keys

Source: lakeFS pkg/actions/lua/util (deep_push.go, deep_pull.go).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

_DEPTH_MAX = 100


class LuaValueError(ValueError):
    """A value cannot go to the other side."""


@runtime_checkable
class Exported(Protocol):
    """A function that Lua may call."""

    def bound(self, name: str, values: Values) -> Callable[..., tuple[Any, ...]]:
        """What Lua calls: it answers true and the results, or false and a message."""


class Values:
    """Converts values of one Lua runtime.

    Args:
        table: makes an empty table.
        array: makes an empty table that is an array.
        is_array: whether a table is one.
        lua_function: makes a function of Lua of one of Python that answers true and results, or false and a message.
        type_of: Lua's name of a value's type; None for values of Python's own.
    """

    def __init__(
        self,
        table: Callable[[], Any],
        array: Callable[[], Any],
        is_array: Callable[[Any], bool],
        lua_function: Callable[[Any], Any],
        type_of: Callable[[Any], str | None],
    ) -> None:
        self._table = table
        self._array = array
        self._is_array = is_array
        self._lua_function = lua_function
        self._type_of = type_of

    def push(self, value: Any, name: str = "") -> Any:
        """Give a value to Lua; a function gets the name that its messages show."""
        if value is None or isinstance(value, bool | int | float | bytes):
            return value
        if isinstance(value, str):
            return value.encode("utf-8", "replace")
        if isinstance(value, Mapping):
            made = self._table()
            for key, each in value.items():
                made[self.push(key)] = self.push(each, str(key))
            return made
        if isinstance(value, Exported):
            return self._lua_function(value.bound(name, self))
        if isinstance(value, list | tuple):
            made = self._array()
            for number, each in enumerate(value, 1):
                made[number] = self.push(each)
            return made
        raise LuaValueError(f"contains unsupported type: {type(value).__name__}")

    def pull(self, value: Any, depth: int = 0) -> Any:
        """Take a table, text, number or boolean from Lua; text that is not UTF-8 loses what is not.

        Raises:
            LuaValueError: there is something else in it.
        """
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, bool | int | float):
            return value
        if self.type_name(value) != "table":
            raise LuaValueError(
                f"pull table, unsupported type {self.type_name(value)}: cannot pull go type into lua"
            )
        if depth > _DEPTH_MAX:
            raise LuaValueError("pull table, stack exhausted")
        if self._is_array(value):
            items = dict(value.items())  # as they are, without what the table's own functions would answer
            return [self.pull(items.get(number), depth + 1) for number in range(1, len(value) + 1)]
        return {self._key(key): self.pull(each, depth + 1) for key, each in value.items()}

    def type_name(self, value: Any) -> str:
        """Lua's name of a value's type."""
        if value is None:
            return "nil"
        if isinstance(value, bool):
            return "boolean"
        if isinstance(value, int | float):
            return "number"
        if isinstance(value, bytes):
            return "string"
        return self._type_of(value) or "userdata"

    def _key(self, key: Any) -> str:
        if isinstance(key, bool) or not isinstance(key, bytes | int | float):
            raise LuaValueError(
                f"key should be a string ({self.type_name(key)}): cannot pull go type into lua"
            )
        return number_text(key) if not isinstance(key, bytes) else key.decode("utf-8", "replace")


def number_text(number: float) -> str:
    """A number as Lua writes it."""
    return f"{number:.14g}"
