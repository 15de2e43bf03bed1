"""What an earlier run left is believed as it was written, or not at all."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.index import SnapshotRow
from dredge.icechunk.collection.state.base import SNAPSHOTS, Base, base_of, open_base, snapshots_table
from dredge.icechunk.collection.state.model import RunState
from dredge.icechunk.collection.state.store import StateStore
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.repository import KnownSnapshots
from dredge.runs.folder import RunFolder, parquet_bytes
from dredge.runs.versions import Current, Version
from dredge.storage import ObjectWriter, open_writer
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.state.test_model import STATE

ROWS = [SnapshotRow("A", ("M", "N"), (1, 2)), SnapshotRow("B", (), ()), SnapshotRow("C", ("M",), (1,))]


@pytest.fixture
def state() -> ObjectWriter:
    return open_writer(f"memory://base-{uuid.uuid4().hex}")


def left(state: ObjectWriter, known: KnownSnapshots) -> RunState:
    """Leave rows of snapshots as a run does."""
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


def test_snapshots_come_back_with_what_they_name_and_with_the_parents_that_a_tag_proves(
    state: ObjectWriter,
) -> None:
    base = open_base(advanced(state), state, None)
    assert base.rows == {row.snapshot: row for row in ROWS}
    assert base.known.entries == {
        "A": ("tag-a", SnapshotEntry("A", "B", 11, "")),
        "B": ("tag-b", SnapshotEntry("B", None, 12, "")),
    }
    table = snapshots_table(ROWS, KnownSnapshots())
    assert table.schema == SNAPSHOTS
    assert table["etag"].null_count == 3


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


def test_only_an_optimized_run_with_a_state_builds_on_it(v1: Repo, state: ObjectWriter) -> None:
    plan, version = v1.plan().plan, advanced(state)
    assert (plan.mode, plan.state) == ("clean", None)
    assert base_of(plan, state, None) is None
    assert base_of(replace(plan, state=version), state, None) is None
    assert base_of(replace(plan, mode="optimized"), state, None) is None
    base = base_of(replace(plan, mode="optimized", state=version), state, None)
    assert isinstance(base, Base)
    assert base.folder.run_id == "r2"


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


def test_every_file_of_a_state_is_looked_at(state: ObjectWriter) -> None:
    found = [(folder.uri, part.name) for folder, part in StateStore(state).files(STATE)]
    of_run = [(STATE.run_uri, name) for name in ("mark/snapshots.parquet", "mark/virtual.ids")]
    assert found == [*of_run, (state.uri, "counted/x-0000.counts")]
