"""Request bodies are checked against their schema before a handler sees them."""

from __future__ import annotations

import json

import pytest

from lakefs_embedded.errors import GravelerError
from lakefs_embedded.server.schema import BOOLEAN, INTEGER, TEXT, ListOf, MapOfText, Schema, parse_body

THING = Schema(
    "Thing",
    {"name": TEXT, "days": INTEGER},
    {"force": BOOLEAN, "tags": ListOf(TEXT), "meta": MapOfText(), "inner": Schema("Inner", {"id": TEXT})},
)


def test_a_right_body_comes_back_as_it_is() -> None:
    value = {"name": "é", "days": -1, "force": True, "tags": [], "meta": {"a": "b"}, "inner": {"id": ""}}
    assert parse_body(json.dumps(value).encode(), THING) == value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "value is required but missing"),
        (b"  ", "value is required but missing"),
        (b"{", "failed to decode request body"),
        (b"\xff\xfe", "failed to decode request body"),
        (b"[" * 100_000, "failed to decode request body"),
        (b"[]", "value must be an object"),
        (b"null", "value must be an object"),
        (b'{"days":1}', 'Error at "/name": property "name" is missing'),
        (b'{"name":null,"days":1}', 'Error at "/name": value must be a string'),
        (b'{"name":1,"days":1}', 'Error at "/name": value must be a string'),
        (b'{"name":"\\ud800","days":1}', 'Error at "/name": value must be a string'),
        (b'{"name":"a","days":1.5}', 'Error at "/days": value must be an integer'),
        (b'{"name":"a","days":true}', 'Error at "/days": value must be an integer'),
        (b'{"name":"a","days":"1"}', 'Error at "/days": value must be an integer'),
        (b'{"name":"a","days":1,"force":"yes"}', 'Error at "/force": value must be a boolean'),
        (b'{"name":"a","days":1,"tags":"x"}', 'Error at "/tags": value must be an array'),
        (b'{"name":"a","days":1,"tags":["x",2]}', 'Error at "/tags/1": value must be a string'),
        (b'{"name":"a","days":1,"meta":[]}', 'Error at "/meta": value must be an object'),
        (b'{"name":"a","days":1,"meta":{"k":1}}', 'Error at "/meta/k": value must be a string'),
        (b'{"name":"a","days":1,"inner":{}}', 'Error at "/inner/id": property "id" is missing'),
    ],
)
def test_a_wrong_body_is_refused_with_its_place(body: bytes, words: str) -> None:
    with pytest.raises(GravelerError) as refused:
        parse_body(body, THING)
    assert refused.value.status == 400
    assert str(refused.value).startswith("request body has an error: ")
    assert words in str(refused.value)
