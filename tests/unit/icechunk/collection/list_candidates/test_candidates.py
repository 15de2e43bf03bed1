"""The files of candidates."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dredge.icechunk.collection.list_candidates.listing import without_pinned
from dredge.storage import LISTING_SCHEMA
from tests.support.icechunk_tasks import OLD, Task


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def listed(*keys: str) -> pa.Table:
    count = len(keys)
    return pa.table([keys, range(count), [OLD] * count, ["tag"] * count], schema=LISTING_SCHEMA)


def test_what_is_pinned_is_parted_from_what_may_go(task: Task) -> None:
    whole = listed("chunks/1", "chunks/2", "chunks/3")
    pins = (task.pin("chunks/2"), task.pin("chunks/3", "chunks/9"))
    going, held = without_pinned(whole, pins)
    assert (going["key"].to_pylist(), held["key"].to_pylist()) == (["chunks/1"], ["chunks/2", "chunks/3"])
    going, held = without_pinned(whole, ())
    assert (going.num_rows, held.num_rows) == (3, 0)
    going, held = without_pinned(whole.slice(0, 0), pins)
    assert (going.num_rows, held.num_rows) == (0, 0)
