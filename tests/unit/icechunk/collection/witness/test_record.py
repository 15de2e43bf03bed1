"""What a complete mark leaves for the next one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dredge.errors import ConflictError, FormatError
from dredge.icechunk.collection.steps import check_limits
from dredge.icechunk.collection.witness.record import (
    KNOWN,
    Known,
    LostTip,
    next_parents,
    note_released,
    read_known,
)
from dredge.runs.parts import parquet_bytes
from dredge.storage import ObjectWriter, open_writer, store_clock
from tests.support.icechunk import Graph, history_of
from tests.support.icechunk_past import Past
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_waiting import let_wait
from tests.support.memory_store import forget_memory_store

AT = datetime(2026, 5, 1, tzinfo=UTC)
KNOWN_ALL = Known(
    run_id="r",
    at=AT,
    tips={"branch:main": "B"},
    lost={"C": LostTip("tag:t", AT)},
    parents={"B": frozenset("A"), "A": frozenset()},
    released=frozenset("D"),
    operation=("commit", 5),
    migrated_at=3,
    root=("A", 1),
)


@pytest.fixture
def state() -> ObjectWriter:
    forget_memory_store("known-test")
    return open_writer("memory://known-test/repo/_dredge")


def test_what_is_left_is_read_as_it_was_written(state: ObjectWriter) -> None:
    assert read_known(state) == (Known(), None)
    for known in (Known(), KNOWN_ALL):
        state.put(KNOWN, known.dumps())
        assert read_known(state) == (known, state.stat(KNOWN).etag)


def test_release_is_added_to_what_is_known(state: ObjectWriter) -> None:
    note_released(state, ())
    assert read_known(state) == (Known(), None)
    note_released(state, {"X"})
    note_released(state, {"Y"})
    assert replace(read_known(state)[0], written_at=None) == Known(released=frozenset("XY"))


@pytest.mark.parametrize(("minutes", "is_copied_back"), [(0, False), (59, False), (61, True)])
def test_record_that_the_store_has_written_an_hour_after_the_time_in_it_was_copied_back(
    state: ObjectWriter, minutes: float, is_copied_back: bool
) -> None:
    known = replace(KNOWN_ALL, written_at=store_clock(state, "") - timedelta(minutes=minutes))
    state.put(KNOWN, known.dumps())
    at = state.stat(KNOWN).last_modified
    copied = Known(run_id="r", at=AT, written_at=known.written_at, copied_back_at=at)
    assert read_known(state)[0] == (copied if is_copied_back else known)


def test_expiration_leaves_a_record_that_was_copied_back_as_it_is(state: ObjectWriter) -> None:
    state.put(KNOWN, replace(KNOWN_ALL, written_at=AT).dumps())
    before = read_known(state)[0].copied_back_at
    assert before is not None
    note_released(state, {"X"})
    note_released(state, {"Y"})
    assert read_known(state)[0].copied_back_at == before


def test_record_of_a_newer_version_stops_the_run(state: ObjectWriter) -> None:
    table = pq.read_table(BytesIO(KNOWN_ALL.dumps()))
    meta = json.loads(table.schema.metadata[b"dredge"]) | {"format": 2}
    state.put(KNOWN, parquet_bytes(table.replace_schema_metadata({b"dredge": json.dumps(meta).encode()})))
    with pytest.raises(FormatError):
        read_known(state)


@pytest.mark.parametrize("keep", [0, 10, -8])
def test_damaged_record_is_as_none_and_what_is_released_waits_anew(tmp_path: Path, keep: int) -> None:
    past = Past(tmp_path / "repo", 1)
    past.commit()
    past.library.create_branch("job", past.tip())
    tip = past.commit("job")
    past.library.delete_branch("job")
    past.pass_days(40)
    past.collect(unsafe_grace_seconds=None)
    let_wait(past.folder, 99)
    path = past.folder / "_dredge" / KNOWN
    path.write_bytes(path.read_bytes()[:keep])
    assert past.collect(unsafe_grace_seconds=None)["deleted"]["objects"] == 0
    assert tip in past.objects()["snapshots"]
    assert past.known().tips == {"branch:main": past.tip()}


def test_record_that_another_run_has_left_since_the_mark_is_not_replaced(v1: Repo) -> None:
    run = v1.listed()
    run.state.put(KNOWN, Known(released=frozenset("X")).dumps())
    with pytest.raises(ConflictError):
        check_limits(run)
    assert read_known(run.state)[0].released == frozenset("X")


def test_ancestors_of_what_is_reached_are_known_through_files_that_are_gone() -> None:
    now = history_of(Graph((("4", "0", 4.0),), {"main": "4"}), 1)
    known = {"4": frozenset("3"), "3": frozenset("2"), "2": frozenset("1"), "1": frozenset("0")}
    found = next_parents(known, now, {"0", "4", "1"})
    assert found == {"0": frozenset(), "4": frozenset("01"), "1": frozenset()}


def test_snapshot_that_is_reached_again_was_released_by_none_of_its_earlier_children() -> None:
    graph = Graph((("1", "0", 1.0), ("4", "0", 4.0)), {"main": "4", "again": "1"})
    known = {"4": frozenset("3"), "3": frozenset("1")}
    found = next_parents(known, history_of(graph, 1), {"0", "1", "3", "4"})
    assert found == {
        "0": frozenset(),
        "1": frozenset("0"),
        "3": frozenset(),
        "4": frozenset("03"),
    }
