"""One script in a Lua of its own: no files, no processes, no modules but those it is given.

Lua 5.2, the language that a real server speaks. Each script has a fresh state, limited memory and limited time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.lua.library import Library
from dredge.graveler.actions.lua.values import Values

MEMORY_BYTES_MAX = 256 << 20
_NAME = b"lua"  # what positions in messages show: [string "lua"]:1:
_FAILURE = ("<HookFailure>", "</HookFailure>")


class Sandbox:
    """Runs scripts.

    Args:
        find: gives a module's functions by its name; raises LookupError with the reason if there is none.
        write: gets what scripts print.
        seconds: time limit of a script.

    Raises:
        HookError: there is no Lua.
    """

    def __init__(self, find: Callable[[str], Library], write: Callable[[str], None], seconds: float) -> None:
        try:
            from lupa import lua52
        except ImportError:
            raise HookError("Lua hooks need the package lupa, part of Dredge's extra `server`") from None
        self._find = find
        self._write = write
        self._deadline = time.monotonic() + seconds
        self._errors = lua52.LuaError
        runtime = lua52.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_no_attributes,
            max_memory=MEMORY_BYTES_MAX,
        )
        source = files(__package__).joinpath("sandbox.lua").read_bytes()
        self._run, self._set, array, is_array, lua_function = runtime.execute(
            source, self._printed, self._overdue, self._module
        )
        self._values = Values(runtime.table, array, is_array, lua_function, lua52.lua_type)

    @property
    def seconds_left(self) -> float:
        """Time until the script is ended."""
        return max(0.0, self._deadline - time.monotonic())

    def run(self, script: bytes, variables: Mapping[str, Any]) -> None:
        """Run a script.

        Args:
            script: its text.
            variables: global variables for it.

        Raises:
            HookError: it failed; the message of `hook.fail` if it was that.
        """
        for name, value in variables.items():
            self._set(name.encode(), self._values.push(value))
        try:
            result = self._run(script, _NAME)
        except self._errors as error:
            raise HookError(f"runtime error: {error}") from None
        ok, message = result if isinstance(result, tuple) else (result, b"")
        if ok is not True:
            raise HookError(_reason(message))

    def _module(self, name: Any) -> tuple[bool, Any]:
        try:
            library = self._find(name.decode("utf-8", "replace") if isinstance(name, bytes) else repr(name))
        except LookupError as error:
            return False, str(error.args[0]).encode()
        return True, self._values.push(library)

    def _printed(self, text: bytes) -> None:
        self._write(text.decode("utf-8", "replace"))

    def _overdue(self) -> bool:
        return time.monotonic() > self._deadline


def _reason(message: bytes) -> str:
    text = message.decode("utf-8", "replace")
    begin, end = _FAILURE
    _, found, rest = text.partition(begin)
    return rest.partition(end)[0] if found else f"runtime error: {text}"


def _no_attributes(owner: object, name: object, setting: bool) -> object:
    """Python objects have no attributes for scripts."""
    raise AttributeError(f"{name!r} cannot be {'set' if setting else 'read'}")
