"""The files of candidates."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dredge.icechunk.collection.list_candidates.candidates import SCHEMA, without_pinned, write_candidates
from dredge.storage import LISTING_SCHEMA
from tests.support.icechunk_tasks import OLD, Task


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def listed(*keys: str) -> pa.Table:
    count = len(keys)
    return pa.table([keys, range(count), [OLD] * count, ["tag"] * count], schema=LISTING_SCHEMA)


def test_candidates_are_written_whole_in_parts_of_so_many_rows_with_their_hashes(task: Task) -> None:
    keys = [f"chunks/{number}" for number in range(5)]
    parts = write_candidates(task.folder, "chunks", 3, [listed(*keys[:3]), listed(*keys[3:])], 2)
    assert [(part.name.rpartition("/")[2], part.rows) for part in parts] == [
        ("found-chunks-0003-00000.parquet", 2),
        ("found-chunks-0003-00001.parquet", 2),
        ("found-chunks-0003-00002.parquet", 1),
    ]
    tables = list(task.folder.read_parts(parts))
    assert all(table.schema.names == SCHEMA.names for table in tables)
    assert [key for table in tables for key in table["address"].to_pylist()] == keys
    rest = task.pin(*keys).find([tables[0]["hash"].to_numpy()])
    assert rest[0].all()
    assert tables[0]["reason"].to_pylist() == ["unreachable"] * 2
    (old,) = write_candidates(task.folder, "overwritten", 0, [listed("overwritten/repo.x")], 2)
    assert task.folder.read_part(old)["reason"].to_pylist() == ["overwritten"]
    assert write_candidates(task.folder, "chunks", 3, [], 2) == []


def test_what_is_pinned_is_parted_from_what_may_go(task: Task) -> None:
    whole = listed("chunks/1", "chunks/2", "chunks/3")
    pins = (task.pin("chunks/2"), task.pin("chunks/3", "chunks/9"))
    going, held = without_pinned(whole, pins)
    assert (going["key"].to_pylist(), held["key"].to_pylist()) == (["chunks/1"], ["chunks/2", "chunks/3"])
    going, held = without_pinned(whole, ())
    assert (going.num_rows, held.num_rows) == (3, 0)
    going, held = without_pinned(whole.slice(0, 0), pins)
    assert (going.num_rows, held.num_rows) == (0, 0)
