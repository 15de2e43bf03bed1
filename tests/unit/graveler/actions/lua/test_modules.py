"""The modules of scripts answer as those of a real server do."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import HookSettings
from dredge.graveler.actions.lua.modules import find_module
from dredge.graveler.actions.lua.runtime import Sandbox
from tests.support.http import scripted_server


def printed(script: str, settings: HookSettings | None = None, **variables: Any) -> str:
    out: list[str] = []
    sandbox = Sandbox(
        lambda name: find_module(name, settings or HookSettings(), lambda: 10.0), out.append, 10
    )
    sandbox.run(script.encode(), variables)
    return "".join(out).removesuffix("\n")


def called(module: str, expression: str, **variables: Any) -> str:
    return printed(f'local m = require("{module}"); print({expression})', **variables)


@pytest.mark.parametrize(
    ("module", "expression", "expected"),
    [
        ("strings", 'table.concat(m.split("a,b,,c", ","), "|")', "a|b||c"),
        ("strings", 'table.concat(m.split("añb", ""), "|")', "a|ñ|b"),
        ("strings", '"<" .. m.trim("  a b\\n") .. ">"', "<a b>"),
        ("strings", 'm.replace("aaaa", "a", "b", 2), m.replace("aaaa", "a", "b", -1)', "bbaa\tbbbb"),
        (
            "strings",
            'm.has_prefix("abc", "ab"), m.has_suffix("abc", "ab"), m.contains("abc", "b")',
            "true\tfalse\ttrue",
        ),
        ("strings", 'm.contains(123, "2")', "true"),
        (
            "regexp",
            'm.match("^a+$", "aaa"), m.match("^a+$", "ab"), m.quote_meta("a.b")',
            "true\tfalse\ta\\.b",
        ),
        ("regexp", 'm.compile("a(b)?").find("xab"), m.compile("z").find("xab")', "ab\t"),
        ("regexp", 'table.concat(m.compile("a(b)?").find_submatch("a"), "|")', "a|"),
        ("regexp", '#m.compile("z").find_submatch("a"), #m.compile("a").find_all("aaa", 2)', "0\t2"),
        ("regexp", 'm.compile("a(.)").find_all_submatch("axay", -1)[2][2]', "y"),
        ("path", 'm.parse("a/b/c").parent, m.parse("a/b/c/").base_name, m.parse("a").parent', "a/b/\tc\t"),
        (
            "path",
            'm.join("/", "a/", "/b", "c"), m.join("/", "/a", "b/"), m.default_separator()',
            "a/b/c\t/a/b/\t/",
        ),
        (
            "path",
            'm.is_hidden("a/_b/c"), m.is_hidden("a/b_"), m.is_hidden("a#.b", "#", ".")',
            "true\tfalse\ttrue",
        ),
        (
            "path",
            'm.extract_dir_name("a/b/c"), m.extract_dir_name("a"), m.extract_dir_name("/a")',
            "a/b\t.\t/",
        ),
        ("net/url", 'm.parse("s3://u@b/p/q?x=1#f").host, m.parse("s3://b/p?x=1").query', "b\tx=1"),
        (
            "net/url",
            'm.query_unescape("a%20b+c"), m.path_escape("a/b c+"), m.build_url("https", "h", "/p q", "a=b")',
            "a b c\ta%2Fb%20c+\thttps://h/p%20q?a=b",
        ),
        (
            "encoding/json",
            "m.marshal({b = 1, a = {true, 1.5}, t = array()})",
            '{"a":{"1":true,"2":1.5},"b":1,"t":[]}\n',
        ),
        ("encoding/json", 'm.marshal({a = "<"}, {indent = "  "})', '{\n  "a": "\\u003c"\n}\n'),
        ("encoding/json", 'm.marshal({a = 1}, {prefix = ">", indent = " "})', '{\n> "a": 1\n>}\n'),
        ("encoding/json", "m.marshal(nil)", "null\n"),
        ("encoding/json", 'm.marshal(m.unmarshal(\'{"l":[1,[]],"n":null}\'))', '{"l":[1,[]]}\n'),
        ("encoding/yaml", 'm.unmarshal("a: {b: [1, x]}").a.b[2]', "x"),
        (
            "encoding/yaml",
            'm.marshal(m.unmarshal("a: {b: [1, x]}"))',
            "a:\n    b:\n        - 1\n        - x\n",
        ),
        (
            "encoding/base64",
            'm.encode("\\255a"), m.url_encode("\\255a"), m.decode("/2E=") == m.url_decode("_2E")',
            "/2E=\t_2E\ttrue",
        ),
        ("encoding/hex", 'm.encode("\\0\\255"), m.decode("6162")', "00ff\tab"),
        (
            "encoding/z85enc",
            'm.decode_uuid("ab^HelloWorldHelloWorld")',
            "864fd26f-b559-f75b-864f-d26fb559f75b\tab^",
        ),
        ("crypto/sha256", '#m.digest("a"), m.digest("a"):byte(1)', "32\t202"),
        ("crypto/hmac", '#m.sign_sha256("t", "k"), #m.sign_sha1("t", "k")', "32\t20"),
        (
            "crypto/aes",
            'm.decryptCBC(("k"):rep(16), m.encryptCBC(("k"):rep(16), "some\\0text"))',
            "some\0text",
        ),
        ("uuid", 'm.new():match("^%x+%-%x+%-4%x+%-%x+%-%x+$") ~= nil', "true"),
        (
            "time",
            'm.format(0, "2006-01-02 15:04:05", "UTC"), m.format_iso(0, "Asia/Tokyo")',
            "1970-01-01 00:00:00\t1970-01-01T09:00:00+09:00",
        ),
        (
            "time",
            'm.parse_iso("1970-01-01T01:00:01+01:00"), m.parse("Jan 02 2006", "Jan 03 1970")',
            "1000000000\t1.728e+14",
        ),
        ("time", "m.add(0, {hour = 1, second = -1}), m.since(m.now()) >= 0", "3599000000000\ttrue"),
    ],
)
def test_functions(module: str, expression: str, expected: str) -> None:
    assert called(module, expression) == expected


@pytest.mark.parametrize(
    ("module", "expression", "why"),
    [
        ("regexp", r'm.match("(?=a)", "a")', "invalid perl operator"),
        ("strings", 'm.replace("a", "b", "c")', "bad argument #4 to 'replace' (number expected, got nil)"),
        ("encoding/json", 'm.marshal("text")', "need a table at index 1, got string"),
        ("encoding/json", "m.marshal({f = print})", "unsupported type function"),
        ("encoding/json", "(function() local t = {}; t.t = t; return m.marshal(t) end)()", "stack exhausted"),
        ("encoding/json", 'm.unmarshal("{")', "Expecting"),
        ("encoding/base64", 'm.decode("!")', "Only base64 data is allowed"),
        ("crypto/aes", 'm.encryptCBC("short", "t")', "Invalid key size"),
        ("crypto/aes", 'm.decryptCBC(("k"):rep(16), "t")', "not a vector"),
        ("time", 'm.format(0, "3:04PM", "UTC")', "is not supported by this embedded server"),
        ("time", 'm.format(0, "2006", "No/Where")', "unknown time zone No/Where"),
        ("time", 'm.parse("2006", "x")', "cannot parse"),
        ("encoding/parquet", 'm.get_schema("x")', "Parquet"),
    ],
)
def test_mistakes_are_errors_of_the_script(module: str, expression: str, why: str) -> None:
    with pytest.raises(HookError) as failed:
        called(module, expression)
    assert why in str(failed.value)


def test_schemas_of_parquet_files() -> None:
    def parquet(**columns: list[Any]) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer)
        return buffer.getvalue()

    flat = "m.get_schema(c)[1].name, m.get_schema(c)[2].type"
    assert called("encoding/parquet", flat, c=parquet(a=[1], b=["x"])) == "a\tBYTE_ARRAY"
    with pytest.raises(HookError, match="nested columns are not supported"):
        called("encoding/parquet", flat, c=parquet(a=[{"b": 1}]))


def test_requests() -> None:
    script = """
    local http = require("net/http")
    print(http.request(url .. "/a"))
    print(http.request(url .. "/b", "posted"))
    local code, body, headers = http.request({url = url .. "/c", method = "PUT", headers = {["X-A"] = {"1", "2"}}})
    print(code, headers["Content-Type"])
    print(pcall(http.request, {method = "GET"}))
    """
    settings = HookSettings(lua_net_http=True)
    with scripted_server() as server:
        server.answer = lambda asked: (202 if asked.method == "PUT" else 200, asked.path.encode())
        lines = printed(script.replace('"posted"', "'{}'"), settings, url=server.endpoint).splitlines()
        assert lines[0].startswith("200\t/a\ttable: ")
        assert lines[0].endswith("\t200 OK")
        assert lines[1].startswith("200\t/b\t")
        assert lines[2] == "202\tapplication/json"
        assert "missing request url" in lines[3]
        assert [each.method for each in server.asked] == ["GET", "POST", "PUT"]
        assert server.asked[2].headers["x-a"] in ("1, 2", "2, 1")


def test_calls_of_the_api() -> None:
    asked: list[tuple[str, str, Mapping[str, str], object]] = []

    def call(method: str, path: str, query: Mapping[str, str], body: object) -> tuple[int, bytes]:
        asked.append((method, path, query, body))
        return (204, b"") if method == "PUT" else (200, json.dumps({"results": [{"path": "a"}]}).encode())

    script = """
    local lakefs = require("lakefs")
    local code, diff = lakefs.diff_refs("r", "a", "b~1", "", "p/", nil, 7)
    print(code, diff.results[1].path)
    print(lakefs.diff_branch("r", "b", nil, 3))
    lakefs.list_objects("r", "b", "a", "", "/", 10, true)
    print(lakefs.get_object("r", "b", "x y"))
    lakefs.stat_object("r", "b", "x", false)
    lakefs.create_tag("r", "b", "t")
    print(lakefs.update_object_user_metadata("r", "b", "x", {k = "v"}))
    print(pcall(lakefs.update_object_user_metadata, "r", "b", "x", {k = 1}))
    """
    lines = printed(script, HookSettings(call=call)).splitlines()
    assert lines[0] == "200\ta"
    assert lines[2] == '200\t{"results": [{"path": "a"}]}'
    assert lines[3] == "204"
    assert "should be a string" in lines[4]
    assert asked == [
        ("GET", "/repositories/r/refs/a/diff/b~1", {"after": "", "prefix": "p/", "amount": "7"}, None),
        ("GET", "/repositories/r/branches/b/diff", {"amount": "3"}, None),
        (
            "GET",
            "/repositories/r/refs/b/objects/ls",
            {"after": "a", "prefix": "", "delimiter": "/", "amount": "10", "user_metadata": "true"},
            None,
        ),
        ("GET", "/repositories/r/refs/b/objects", {"path": "x y"}, None),
        ("GET", "/repositories/r/refs/b/objects/stat", {"path": "x", "user_metadata": "false"}, None),
        ("POST", "/repositories/r/tags", {}, {"ref": "b", "id": "t"}),
        ("PUT", "/repositories/r/branches/b/objects/stat/user_metadata", {"path": "x"}, {"set": {"k": "v"}}),
    ]
