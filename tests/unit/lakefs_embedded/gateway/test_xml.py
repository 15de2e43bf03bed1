"""XML of answers holds any key; XML of requests is read strictly."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakefs_embedded.gateway import xml
from lakefs_embedded.gateway.errors import S3Error

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)


@given(TEXT)
def test_any_text_comes_back_from_a_parser(text: str) -> None:
    text = text.replace("\ufffe", "").replace("\uffff", "")
    found = ElementTree.fromstring(xml.document("Answer", ("Key", text), namespace=False))
    assert (found.findtext("Key") or "") == text


def test_what_xml_cannot_hold_is_a_reference_and_never_another_character() -> None:
    assert b"<Key>a&#x1;b&#xd;&#xffff;</Key>" in xml.document("Answer", ("Key", "a\x01b\r\uffff"))


def test_a_time_is_utc_with_milliseconds() -> None:
    assert xml.timestamp(datetime(2026, 1, 2, 3, 4, 5, 6999, UTC)) == "2026-01-02T03:04:05.006Z"


def test_nested_nodes_and_other_types() -> None:
    made = xml.document("A", ("B", [("C", 1), ("D", True)]), ("E", []))
    assert made.endswith(b"><B><C>1</C><D>true</D></B><E></E></A>")


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', ' xmlns="x"'])
def test_a_request_may_have_any_namespace(namespace: str) -> None:
    found = xml.parse(f"<Delete{namespace}><Quiet>true</Quiet></Delete>".encode(), "Delete")
    assert xml.fields(found) == {"Quiet": "true"}


@pytest.mark.parametrize(
    "data", [b"", b"x", b"<A>", b"<B/>", b"<A>\xff</A>", b"<A>\0</A>", b"<!DOCTYPE A><A/>", b"<A>&e;</A>"]
)
def test_what_is_not_that_document_is_refused(data: bytes) -> None:
    with pytest.raises(S3Error, match="well-formed") as refused:
        xml.parse(data, "A")
    assert refused.value.code == "MalformedXML"
