"""The world of a script: what it has, what it has not, and how it ends."""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import HookSettings
from dredge.graveler.actions.lua.modules import find_module
from dredge.graveler.actions.lua.runtime import Sandbox


def printed(script: str, seconds: float = 10, **variables: Any) -> str:
    out: list[str] = []
    sandbox = Sandbox(
        lambda name: find_module(name, HookSettings(), lambda: sandbox.seconds_left), out.append, seconds
    )
    sandbox.run(script.encode(), variables)
    return "".join(out)


def test_a_script_prints_and_sees_its_variables() -> None:
    value: Mapping[str, Any] = {"text": "ü", "list": [1, "b", {"c": True}], "none": None, "half": 0.5}
    script = 'print(v.text, v.list[1], v.list[2], v.list[3].c, v.none, v.half, #v.list, 10 * 3, "a\\0b")'
    assert printed(script, v=value) == "ü\t1\tb\ttrue\tnil\t0.5\t3\t30\ta\0b\n"


@pytest.mark.parametrize(
    "name",
    [
        "io",
        "os",
        "python",
        "dofile",
        "loadfile",
        "coroutine",
        "string.dump",
        "debug.getupvalue",
        "package.loadlib",
    ],
)
def test_nothing_reaches_out_of_a_script(name: str) -> None:
    assert printed(f"print({name})") == "nil\n"


def test_modules_of_files_are_not_found_and_bytecode_is_not_loaded() -> None:
    for module in ("io", "os", "python", "debug.x", "lfs"):
        with pytest.raises(HookError, match=f"module '{module}' not found"):
            printed(f'require("{module}")')
    assert "attempt to load a binary chunk" in printed('print(load("\\27Lua"))')
    assert printed('print(load("return 1 + 1")(), load("return x", "n", "t", {x = 3})())') == "2\t3\n"


def test_functions_of_python_are_functions_of_lua_without_attributes() -> None:
    script = 'local s = require("strings"); print(type(s.split)); print(pcall(function() return s.split.__self__ end))'
    lines = printed(script).splitlines()
    assert lines[0] == "function"
    assert lines[1].startswith("false\t")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('error("on purpose")', 'runtime error: [string "lua"]:1: on purpose\nstack traceback:'),
        ("error({})", "runtime error: table: "),
        ("\n\nlocal x = nil; x.y = 1", 'runtime error: [string "lua"]:3: attempt to index'),
        ("local = 1", 'runtime error: [string "lua"]:1: '),
        ('require("hook").fail("not today")', "not today"),
        ('require("hook").fail({})', 'runtime error: [string "lua"]:1: bad argument #1'),
        (
            'require("aws/glue")',
            "runtime error: [string \"lua\"]:1: module 'aws/glue' not found: a real lakeFS has it",
        ),
        ('require("net/http")', "runtime error: [string \"lua\"]:1: module 'net/http' not found"),
        (
            'require("lakefs")',
            "runtime error: [string \"lua\"]:1: module 'lakefs' not found: there is no server",
        ),
        (
            'require("strings").split({}, ",")',
            "runtime error: [string \"lua\"]:1: bad argument #1 to 'split'",
        ),
        ('string.rep("x", 1e9)', "runtime error: not enough memory"),
    ],
)
def test_how_a_script_fails(script: str, why: str) -> None:
    with pytest.raises(HookError) as failed:
        printed(script)
    assert str(failed.value).startswith(why)
    assert failed.value.failed


def test_a_script_cannot_leave_a_finalizer_that_runs_for_ever() -> None:
    printed("pcall(setmetatable, {}, {__gc = function() while true do end end})")
    printed(
        "local meta = {}; setmetatable({}, meta); meta.__gc = function() while true do end end", seconds=5
    )
    with pytest.raises(HookError, match="'__gc' is not supported"):
        printed("setmetatable({}, {__gc = print})")
    assert printed("print(setmetatable({}, {__index = {a = 1}}).a, getmetatable({}))") == "1\tnil\n"


def test_a_failure_that_the_script_handles_is_none() -> None:
    assert printed('print((pcall(require, "aws")), (pcall(error, "x")))') == "false\tfalse\n"
    handled = 'print(xpcall(function(a) error(a, 0) end, function(m) return m .. "!" end, "x"))'
    assert printed(handled) == "false\tx!\n"
    assert printed("print(xpcall(function(...) return ... end, print, 1, nil, 3))") == "true\t1\tnil\t3\n"


@pytest.mark.parametrize(
    "script",
    [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(error, function() end) end",
        "xpcall(error, function() while true do end end)",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "table.sort({3, 1, 2}, function() while true do end end)",
        '("x"):gsub("x", function() while true do end end)',
        """
        local t = array(); t[1], t[2], t[4] = 1, 2, 4
        getmetatable(t).__index = function() while true do end end
        pcall(require("encoding/json").marshal, t)
        """,
        'require("time").sleep(60e9) print("slept")',
        'pcall(function() require("time").sleep(60e9) end) print("slept")',
    ],
)
def test_a_script_that_takes_too_long_is_ended(script: str) -> None:
    started = time.monotonic()
    with pytest.raises(HookError, match="taken too long"):
        printed(f"{script} while true do end", seconds=0.05)
    assert time.monotonic() - started < 5


def test_modules_and_globals_belong_to_one_script() -> None:
    printed("x = 1; string.upper = nil")
    assert printed('print(x, ("a"):upper())') == "nil\tA\n"
    assert printed('package.preload.m = function(n) return {n = n} end print(require("m").n)') == "m\n"


def test_without_lupa_a_script_fails_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("lupa"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "lupa", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(HookError, match="extra `server`"):
        printed("print(1)")
