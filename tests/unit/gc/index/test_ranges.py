"""What metaranges say of ranges, as rows and in shares, and range files that are found by their content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError
from dredge.gc.index.ranges import (
    RangeFacts,
    Ranges,
    find_range_files,
    unite_ranges,
)
from dredge.lakefs.files.sstable import RANGES, write_table
from dredge.lakefs.files.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.storage import open_reader
from tests.support.memory_store import forget_memory_store, memory_store

FACTS = RangeFacts(3, b"a", b"c")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("other", [RangeFacts(4, b"a", b"c"), RangeFacts(3, b"a", b"d")])
def test_metaranges_that_disagree_about_a_range_stop_the_run(other: RangeFacts) -> None:
    with pytest.raises(FormatError, match="range r"):
        unite_ranges({"r": FACTS}, [("r", other)])


@dataclass
class Files:
    """A namespace with files below `_lakefs/`."""

    bucket: str = "range-files"

    def put(self, data: bytes, name: str = "", hours_ago: float = 0) -> None:
        memory_store(self.bucket).write(f"lake/_lakefs/{name}", data, NOW - timedelta(hours=hours_ago))

    def find(self, read_before: tuple[str, ...] = ()) -> tuple[Ranges, set[str]]:
        ranges, names = find_range_files(open_reader(f"memory://{self.bucket}/lake"), read_before)
        assert len(names) == len(set(names))
        return ranges, set(names)


@pytest.fixture
def files() -> Iterator[Files]:
    yield Files()
    forget_memory_store("range-files")


def table(*keys: bytes, kind: str = RANGES, entity: str = "") -> bytes:
    return write_table([(key, b"") for key in keys], kind, {"entity": entity} if entity else None).data


A, B, C, D = (letter * 64 for letter in "abcd")


@pytest.mark.parametrize(
    ("name", "data"),
    [(A, b"no table"), (A, b""), ("renamed", b"x" * (FOOTER_SIZE - len(MAGIC)) + MAGIC)],
    ids=["name of a table", "empty", "end of a table"],
)
def test_what_should_be_a_table_and_is_none_stops_the_run(files: Files, name: str, data: bytes) -> None:
    files.put(data, name)
    with pytest.raises(FormatError):
        files.find()


@pytest.mark.parametrize("size", [len(MAGIC), FOOTER_SIZE - 1])
def test_what_is_shorter_than_the_end_of_a_table_is_none(files: Files, size: int) -> None:
    files.put(b"x" * (size - len(MAGIC)) + MAGIC, "short")
    assert files.find() == ({}, {"short"})
