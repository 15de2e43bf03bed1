"""XML of answers holds any key; XML of requests is read strictly."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from lakefs_embedded.gateway import xml

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)


@given(TEXT)
def test_any_text_comes_back_from_a_parser(text: str) -> None:
    text = text.replace("\ufffe", "").replace("\uffff", "")
    found = ElementTree.fromstring(xml.document("Answer", ("Key", text), namespace=False))
    assert (found.findtext("Key") or "") == text
