"""A file that is named by its content is read once by a process that does several steps."""

from collections.abc import Iterator
from typing import Any

import pytest

from dredge.errors import NotFoundError
from dredge.gc.index.ranges import get_file, get_files
from dredge.runs.parts import cache_parts
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store


class Counted:
    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def get(self, key: str) -> bytes:
        self.reads += 1
        return bytes(self._reader.get(key))

    def get_many(self, keys: list[str]) -> Iterator[tuple[str, bytes]]:
        return ((key, self.get(key)) for key in keys)


@pytest.fixture
def reader() -> Iterator[Any]:
    writer = open_writer("memory://files-test/lake")
    for name in "abc":
        writer.put(f"_lakefs/{name}", name.encode())
    yield Counted(writer)
    forget_memory_store("files-test")


def test_files_come_in_the_asked_order_and_each_is_read_once(reader: Any) -> None:
    with cache_parts(reader.uri):
        assert get_file(reader, "b") == b"b"
        for _ in range(2):
            assert list(get_files(reader, ["c", "b", "a"])) == [
                ("_lakefs/c", b"c"),
                ("_lakefs/b", b"b"),
                ("_lakefs/a", b"a"),
            ]
    assert reader.reads == 3


def test_a_process_with_one_step_keeps_no_file(reader: Any) -> None:
    for _ in range(2):
        list(get_files(reader, ["a", "b"]))
    assert reader.reads == 4


def test_a_missing_file_is_an_error_unless_it_may_be_missing(reader: Any) -> None:
    with cache_parts(reader.uri):
        assert [key for key, _ in get_files(reader, ["a", "missing", "c"], lenient=True)] == [
            "_lakefs/a",
            "_lakefs/c",
        ]
        with pytest.raises(NotFoundError):
            list(get_files(reader, ["missing", "a"]))
