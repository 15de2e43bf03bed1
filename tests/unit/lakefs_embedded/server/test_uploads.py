"""Form uploads are parsed correctly however the body is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from urllib3.filepost import encode_multipart_formdata

from lakefs_embedded.errors import GravelerError
from lakefs_embedded.server.uploads import FormContent

CONTENT = bytes(range(256)) * 50 + b"\r\n--boundary\r\n--b"


def form(fields: list[tuple[str, bytes | tuple[str, bytes, str]]]) -> tuple[bytes, str]:
    return encode_multipart_formdata(fields, boundary="b0undary")  # type: ignore[arg-type]


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def test_a_form_without_the_field_fails_before_any_byte() -> None:
    body, header = form([("file", b"x")])
    with pytest.raises(GravelerError, match="content") as refused:
        FormContent(pieces(body, 10), header).open()
    assert refused.value.status == 400


def test_a_form_cut_short_is_no_short_object() -> None:
    body, header = form([("content", CONTENT)])
    found = FormContent(pieces(body[:-20], 64), header)
    found.open()
    with pytest.raises(GravelerError, match="ends before"):
        b"".join(found)


@pytest.mark.parametrize("header", ["multipart/form-data", "multipart/form-data; boundary="])
def test_a_form_without_a_boundary_is_refused(header: str) -> None:
    with pytest.raises(GravelerError, match="boundary"):
        FormContent(iter(()), header)


def test_what_is_no_form_is_refused() -> None:
    with pytest.raises(GravelerError, match="multipart"):
        FormContent(iter([b"this is no form"]), "multipart/form-data; boundary=b").open()
