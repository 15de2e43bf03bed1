"""The state that one run leaves to the next, as an object."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import UTC, datetime

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.state.model import FORMAT, RunState
from dredge.runs.payload import from_json, from_versioned, to_json
from dredge.runs.summary import PartInfo
from dredge.sets.live import CountedSet

STATE = RunState(
    uri="memory://here/repo",
    spec_version=2,
    run_id="r2",
    run_uri="memory://here/repo/_dredge/runs/r2",
    fencing=7,
    previous="r1",
    mode="optimized",
    started_at=datetime(2026, 5, 3, tzinfo=UTC),
    cutoff=datetime(2026, 5, 2, tzinfo=UTC),
    clean_run_id="r0",
    clean_at=datetime(2026, 5, 1, tzinfo=UTC),
    optimized_runs=2,
    chunk_objects=30,
    snapshots=PartInfo("mark/snapshots.parquet", 1, 2, "3"),
    virtual=PartInfo("mark/virtual.ids", 1, 8, "5"),
    counted=CountedSet.of([PartInfo("counted/x-0000.counts", 1, 12, "4")], 0),
    contradicted=("A", "B"),
    seen=("index/parts/x-snapshots-00000.parquet",),
)


def test_state_comes_back_whole() -> None:
    value = to_json(STATE)
    assert from_json(RunState, value) == STATE
    assert value.keys() == {item.name for item in fields(STATE)}


@pytest.mark.parametrize("name", [item.name for item in fields(STATE) if item.default is MISSING])
def test_state_that_lacks_something_is_none(name: str) -> None:
    value = to_json(STATE)
    del value[name]
    with pytest.raises(FormatError):
        from_json(RunState, value)


def test_state_of_another_format_is_none() -> None:
    for other in (FORMAT - 1, FORMAT + 1):
        with pytest.raises(FormatError):
            from_versioned(RunState, to_json(STATE) | {"format": other}, FORMAT)
