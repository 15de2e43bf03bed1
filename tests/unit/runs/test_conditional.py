"""An object is replaced only as it was read, and one that is there is never taken for one that is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.storage import ObjectWriter, open_writer
from tests.support.memory_store import forget_memory_store


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://conditional-test/r1")
    forget_memory_store("conditional-test")


def test_of_two_who_read_the_same_one_replaces_it(writer: ObjectWriter) -> None:
    assert read_tagged(writer, "x") is None
    assert replace_tagged(writer, "x", b"1", None)
    assert not replace_tagged(writer, "x", b"2", None), "it is there by now"
    found = read_tagged(writer, "x")
    assert found is not None
    etag, data = found
    assert data == b"1"
    assert replace_tagged(writer, "x", b"3", etag)
    assert not replace_tagged(writer, "x", b"4", etag)
    assert writer.get("x") == b"3"


def test_one_without_a_tag_is_there_all_the_same() -> None:
    class Untagged:
        @contextmanager
        def open_read(self, _key: str) -> Iterator[Any]:
            yield Stream([b"a", b"b"])

    class Stream(list[bytes]):
        info = SimpleNamespace(etag=None)

    assert read_tagged(Untagged(), "x") == ("", b"ab")  # type: ignore[arg-type]
