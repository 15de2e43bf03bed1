"""What an earlier run left is believed as it was written, or not at all."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.index import SnapshotRow
from dredge.icechunk.collection.state import RunState, StateStore, open_base, snapshots_table
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.repository import KnownSnapshots
from dredge.runs.folder import RunFolder, parquet_bytes
from dredge.runs.summary import PartInfo
from dredge.runs.versions import Current, Version
from dredge.sets.live import CountedSet
from dredge.storage import ObjectWriter, open_writer

ROWS = [SnapshotRow("A", ("M", "N"), (1, 2)), SnapshotRow("B", (), ()), SnapshotRow("C", ("M",), (1,))]

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


@pytest.fixture
def state() -> ObjectWriter:
    return open_writer(f"memory://base-{uuid.uuid4().hex}")


def left(state: ObjectWriter, known: KnownSnapshots) -> RunState:
    uri = f"{state.uri}/runs/r2"
    data = parquet_bytes(snapshots_table(ROWS, known))
    folder = RunFolder(open_writer(uri), "r2")
    part = folder.write_bytes("mark/snapshots.parquet", data, len(ROWS))
    virtual = folder.write_bytes("mark/virtual.ids", b"", 0)
    return replace(STATE, run_uri=uri, snapshots=part, virtual=virtual)


def advanced(state: ObjectWriter) -> Version:
    known = KnownSnapshots()
    known.entries["A"] = ("tag-a", SnapshotEntry("A", "B", 11, ""))
    known.entries["B"] = ("tag-b", SnapshotEntry("B", None, 12, ""))
    known.entries["X"] = ("tag-x", SnapshotEntry("X", None, 13, ""))
    return StateStore(state).advance(left(state, known), Current())


@pytest.mark.parametrize("damage", ["gone", "changed", "another object"])
def test_state_that_is_not_as_it_was_stops_the_run(state: ObjectWriter, damage: str) -> None:
    version = advanced(state)
    if damage == "gone":
        version = replace(version, name="state/nowhere.json")
    elif damage == "changed":
        state.put(version.name, state.get(version.name).replace(b'"r1"', b'"r9"'))
    else:
        version = StateStore(state).advance(left(state, KnownSnapshots()), StateStore(state).find({}))
        state.put(version.name, b"{}")
    with pytest.raises(FormatError):
        open_base(version, state, None)


def test_state_is_of_use_for_the_repository_that_it_is_about_only(state: ObjectWriter) -> None:
    store = StateStore(state)
    version = store.advance(
        replace(left(state, KnownSnapshots()), counted=replace(STATE.counted, layers=())), Current()
    )
    for uri in (STATE.uri, f"{STATE.uri}/"):
        assert store.current(uri, 2).version == version
        assert store.current(uri, 2).state is not None
    assert f"uri {STATE.uri}" in store.current(f"{STATE.uri}-2", 2).problem
    assert "spec_version" in store.current(STATE.uri, 1).problem
