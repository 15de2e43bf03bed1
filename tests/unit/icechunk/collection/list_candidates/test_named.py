"""Chunks that dead manifests name: each once, and a candidate only where no live manifest names it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dredge.icechunk.collection.list_candidates.listing import write_candidates
from dredge.icechunk.collection.list_candidates.named import (
    NAMED,
    SelectConfig,
    SelectResult,
    SelectTask,
    select_dead,
    still_there,
    write_by_shard,
)
from dredge.runs.summary import PartInfo
from dredge.storage import LISTING_SCHEMA, open_reader
from tests.support.icechunk_tasks import CUTOFF, OLD, Task, named

EARLIER = OLD - timedelta(days=1)


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def rows(*found: tuple[int, int, int, datetime]) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=NAMED)


def candidates(task: Task, kind: str, listed: Sequence[tuple[str, int, datetime]]) -> PartInfo:
    columns = [list(column) for column in zip(*listed, strict=True)]
    table = pa.table([*columns, pa.nulls(len(listed), pa.string())], schema=LISTING_SCHEMA)
    (part,) = write_candidates(task.folder, kind, 1, [table], 100)
    return part


def select(task: Task, *shards: pa.Table, **changes: Any) -> SelectResult:
    parts = {
        number: list(write_by_shard(task.folder, 0, f"x-{number}", shard).values())
        for number, shard in enumerate(shards)
    }
    given: dict[str, Any] = {
        "counted": task.counted(1),
        "cutoff": CUTOFF,
        "candidate_rows": 100,
        "threads": 2,
        "pinned": (),
    }
    return select_dead.body(task.run, SelectConfig(**(given | changes)), SelectTask(number=3, shards=parts))


def test_only_chunks_that_no_live_manifest_names_are_candidates(task: Task) -> None:
    found = select(task, rows((1, 0, 5, OLD), (2, 3, 100, EARLIER)), rows((2, 7, 1, OLD), (1, 1, 1, OLD)))
    (part,) = found.parts
    table = task.folder.read_part(part)
    assert table.select(["address", "size", "last_modified"]).to_pydict() == {
        "address": [f"chunks/{named(2, 3)}", f"chunks/{named(2, 7)}"],
        "size": [100, 1],
        "last_modified": [EARLIER, OLD],
    }
    assert found.counts == {
        "listed_objects": 4,
        "listed_bytes": 107,
        "candidates_objects": 2,
        "candidates_bytes": 101,
        "pinned_objects": 0,
        "pinned_bytes": 0,
    }


def test_chunk_is_still_there_only_when_the_store_says_so_and_calls_it_old(task: Task) -> None:
    task.put(f"chunks/{named(2, 3)}", b"xx")
    task.put(f"chunks/{named(4)}", b"xx", CUTOFF)
    given = rows(*((number, tail, 1, EARLIER) for number, tail in ((2, 3), (2, 4), (3, 0), (4, 0))))
    (found,) = still_there(open_reader(task.uri), CUTOFF, 2, given).to_pylist()
    assert (found["key"], found["size"], found["last_modified"]) == (f"chunks/{named(2, 3)}", 2, OLD)
    assert found["etag"]
