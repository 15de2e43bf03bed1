"""What metaranges say of ranges, as rows and in shares, and range files that are found by their content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError
from dredge.gc.index.ranges import (
    SCHEMA,
    RangeFacts,
    Ranges,
    facts_of,
    find_range_files,
    share_ranges,
    table_of,
    unite_ranges,
)
from dredge.lakefs.files.sstable import METARANGES, RANGES, write_table
from dredge.lakefs.files.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.runs.folder import RunFolder
from dredge.storage import open_reader, open_writer
from tests.support.memory_store import forget_memory_store, memory_store

FACTS = RangeFacts(3, b"a", b"c")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_ranges_of_several_metaranges_are_one_in_a_head_if_it_is_so_in_any() -> None:
    in_head = RangeFacts(3, b"", b"c", head=True)
    assert not FACTS.head
    for order, head in (((FACTS, FACTS), False), ((FACTS, in_head), True), ((in_head, FACTS), True)):
        ranges: Ranges = {}
        unite_ranges(ranges, (("r", facts) for facts in order))
        assert ranges == {"r": RangeFacts(3, order[0].min_key, b"c", head=head)}


@pytest.mark.parametrize("other", [RangeFacts(4, b"a", b"c"), RangeFacts(3, b"a", b"d")])
def test_metaranges_that_disagree_about_a_range_stop_the_run(other: RangeFacts) -> None:
    with pytest.raises(FormatError, match="range r"):
        unite_ranges({"r": FACTS}, [("r", other)])


def test_rows_and_shares_of_ranges_give_each_range_once_in_the_order_of_its_keys() -> None:
    ranges = {
        f"r{number}": RangeFacts(number, b"%d" % (9 - number), b"z", number == 2) for number in range(7)
    }
    table = table_of(ranges)
    ordered = [(f"r{number}", ranges[f"r{number}"]) for number in range(6, -1, -1)]
    assert list(facts_of(table)) == ordered
    folder = RunFolder(open_writer("memory://ranges-test/run"), "run")
    part = folder.write_table("x", 0, table, "ranges")
    for tasks in (1, 3, 7, 9):
        shares = [share.read(folder) for share in share_ranges(part, tasks)]
        assert len(shares) == min(tasks, 7)
        assert [item for share in shares for item in share.items()] == ordered
    forget_memory_store("ranges-test")
    assert table_of({}).schema == table.schema == SCHEMA


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


def test_of_all_files_those_are_ranges_that_hold_records_of_objects(files: Files) -> None:
    files.put(table(b"1", b"2"), A)
    files.put(table(b"3"), "renamed")
    files.put(table(b"1", kind=METARANGES), B)
    files.put(table(b"1", entity="commit"), C)
    files.put(table(), D)
    files.put(b"neither" * FOOTER_SIZE, "dummy")
    found, names = files.find()
    assert found == {A: RangeFacts(2, b"", b"2"), "renamed": RangeFacts(1, b"", b"3")}
    assert names == {A, B, C, D, "renamed", "dummy"}


def test_what_was_read_before_is_not_read_again(files: Files) -> None:
    files.put(table(b"1"), A)
    files.put(b"damaged since", B)
    assert files.find(read_before=(B,)) == ({A: RangeFacts(1, b"", b"1")}, {A})


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
