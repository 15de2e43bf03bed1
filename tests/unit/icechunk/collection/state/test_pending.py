"""What runs were about to delete is told to those that come after them."""

from __future__ import annotations

import sys
import uuid

import pytest

from dredge.icechunk.collection.state.pending import Pending, note_pending, noted_fencing, read_pending
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectWriter, open_writer

PART = PartInfo("list_candidates/chunks-0000-00000.parquet", 3, 100, "ab")


@pytest.fixture
def state() -> ObjectWriter:
    return open_writer(f"memory://pending-{uuid.uuid4().hex}")


def test_only_what_other_runs_noted_after_the_complete_one_is_told(state: ObjectWriter) -> None:
    for fencing, run_id in ((4, "before"), (5, "complete"), (6, "stopped-once"), (7, "own"), (12, "later")):
        note_pending(state, run_id, f"memory://runs/{run_id}", fencing, [PART] if fencing == 6 else [])
    assert read_pending(state, 5, "own") == [
        Pending("stopped-once", "memory://runs/stopped-once", [PART]),
        Pending("later", "memory://runs/later", []),
    ]


def test_note_that_tells_no_number_or_no_run_is_left_out(state: ObjectWriter) -> None:
    note_pending(state, "good", "memory://runs/good", 6, [PART])
    good = state.get("pending/000000000006-good.json")
    state.put("pending/number-less.json", good)
    state.put(f"pending/{sys.maxsize}-largest.json", good)
    state.put("pending/000000000007-torn.json", b"{")
    state.put("pending/000000000008-empty.json", b"{}")
    assert [found.run_id for found in read_pending(state, 5, "own")] == ["good"]


def test_number_of_a_note_is_in_its_name() -> None:
    assert noted_fencing("pending/000000000012-run.json") == 12
    assert noted_fencing("pending/x12-run.json") == sys.maxsize
    assert noted_fencing("pending/-run.json") == sys.maxsize
