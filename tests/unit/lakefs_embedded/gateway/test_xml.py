"""XML of answers holds any key; XML of requests is read strictly."""

from __future__ import annotations

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
