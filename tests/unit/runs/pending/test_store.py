"""Where the pending list lies: what a run believes of it, and what a kill leaves."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import ConflictError, RefusedError
from dredge.hashing import hash64
from dredge.runs.payload import to_json
from dredge.runs.pending.rows import PENDING, WAITING
from dredge.runs.pending.store import (
    FORMAT,
    NEWEST,
    POINTER,
    Expected,
    PendingList,
    Stored,
    read_list,
    read_named_parts,
    write_list,
    write_part,
)
from dredge.storage import ObjectWriter, open_deleter, open_writer
from tests.support.memory_store import forget_memory_store, memory_store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HERE = Expected(subject="s3://bucket/lake", life="2026-01-01")


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    yield open_writer("memory://pending-test/state")
    forget_memory_store("pending-test")


def rows(count: int = 3) -> pa.Table:
    addresses = pa.array([f"data/{number}" for number in range(count)], pa.string())
    columns: dict[str, Any] = {
        "address": addresses,
        "hash": pa.array(hash64(addresses)),
        "size": [1] * count,
        "etag": ["e"] * count,
        "version_id": [None] * count,
        "last_modified": [NOW] * count,
        "status": [WAITING] * count,
        "since": [NOW] * count,
        "run_id": ["r1"] * count,
        "min_age": [0] * count,
    }
    return pa.table(columns, schema=PENDING)


def written(state: ObjectWriter, **changes: Any) -> PendingList:
    part = write_part(state, "r1-t001", 0, rows())
    found = PendingList(
        subject=HERE.subject, life=HERE.life, run_id="r1", marked_at=NOW, left_at=NOW, parts={0: part}
    )
    return replace(found, **changes)


def leave(state: ObjectWriter, etag: str | None = None, at: datetime = NOW, **changes: Any) -> PendingList:
    found = written(state, **changes)
    write_list(state, found, etag)
    memory_store("pending-test").write(f"state/{POINTER}", state.get(POINTER), at)
    return found


def read(state: ObjectWriter, expected: Expected = HERE, now: datetime = NOW) -> Stored:
    return read_list(state, expected, now)


def test_a_kill_before_the_pointer_leaves_the_old_list(state: ObjectWriter) -> None:
    assert read_named_parts(state) == set()
    written(state)
    assert read(state) == Stored()
    old = leave(state)
    write_part(state, "r2-t001", 0, rows(1))
    assert read(state).pending == old


@pytest.mark.parametrize(
    "expected",
    [
        replace(HERE, subject="s3://bucket/other"),
        replace(HERE, life="2026-02-02"),
        replace(HERE, valid_from=NOW, why="a person gave up what was lost"),
    ],
)
def test_a_list_about_something_else_is_not_believed(state: ObjectWriter, expected: Expected) -> None:
    leave(state)
    stored = read(state, expected)
    assert stored.pending is None
    assert stored.problem
    assert stored.etag


def test_where_nothing_tells_lives_apart_they_are_not_compared(state: ObjectWriter) -> None:
    leave(state)
    assert read(state, replace(HERE, life="")).pending is not None
    assert read(state, replace(HERE, valid_from=NOW - timedelta(seconds=1))).pending is not None


def test_a_list_from_the_future_or_copied_back_is_not_believed(state: ObjectWriter) -> None:
    leave(state)
    assert read(state, now=NOW - timedelta(minutes=5)).pending is not None
    assert read(state, now=NOW - timedelta(minutes=6)).problem
    memory_store("pending-test").write(f"state/{POINTER}", state.get(POINTER), NOW + timedelta(minutes=61))
    assert read(state, now=NOW + timedelta(hours=2)).problem


def test_an_older_format_waits_anew_and_a_newer_one_stops_the_run(state: ObjectWriter) -> None:
    value = to_json(written(state))
    state.put(POINTER, json.dumps({**value, "format": FORMAT - 1}).encode())
    assert read(state).problem
    state.put(POINTER, json.dumps({**value, "format": FORMAT + 1}).encode())
    with pytest.raises(RefusedError):
        read(state)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format": 1}', b'{"format": "x"}', b"\xff"])
def test_a_damaged_pointer_is_a_problem(state: ObjectWriter, data: bytes) -> None:
    state.put(POINTER, data)
    stored = read(state)
    assert stored.pending is None
    assert stored.problem
    write_list(state, written(state), stored.etag)
    assert read_list(state, HERE, NOW).etag != stored.etag


@pytest.mark.parametrize("damage", ["gone", "short", "other"])
def test_a_part_that_is_gone_or_damaged_is_a_problem(state: ObjectWriter, damage: str) -> None:
    key = leave(state).parts[0].key
    if damage == "gone":
        open_deleter(state.uri).delete([key])
    else:
        data = state.get(key)
        state.put(key, data[:-1] if damage == "short" else bytes([data[0] ^ 1]) + data[1:])
    stored = read(state)
    assert stored.pending is None
    assert stored.problem


def test_a_list_that_another_run_left_since_is_not_replaced(state: ObjectWriter) -> None:
    leave(state)
    etag = read(state).etag
    leave(state, etag, run_id="r2")
    with pytest.raises(ConflictError):
        write_list(state, written(state, run_id="r3"), etag)
    with pytest.raises(ConflictError):
        write_list(state, written(state, run_id="r3"), None)
    assert json.loads(state.get(POINTER))["run_id"] == "r2"


def test_a_later_try_of_a_run_replaces_its_own_list(state: ObjectWriter) -> None:
    first = written(state)
    write_list(state, first, None)
    write_list(state, first, None)
    second = replace(first, left_at=NOW + timedelta(minutes=1))
    write_list(state, second, None)
    assert json.loads(state.get(POINTER)) == json.loads(json.dumps(to_json(second)))


def test_a_list_of_before_the_newest_one_is_not_believed(state: ObjectWriter) -> None:
    leave(state)
    data, etag = state.get(POINTER), read(state).etag
    later = NOW + timedelta(minutes=1)
    leave(state, etag, later, run_id="r2", left_at=later)
    newest = state.get(NEWEST)
    assert read(state, now=later).pending is not None
    memory_store("pending-test").write(f"state/{POINTER}", data, NOW)
    assert read(state, now=later).problem
    for damaged in (b"", b"{}", b"[]"):
        state.put(NEWEST, damaged)
        assert read(state, now=later).problem
    state.put(NEWEST, newest)
    leave(state, read(state, now=later).etag, later, left_at=later)
    assert read(state, now=later).pending is not None, "it is the newest one now"


def test_a_kill_before_the_note_leaves_the_new_list(state: ObjectWriter) -> None:
    leave(state)
    note, etag = state.get(NEWEST), read(state).etag
    later = NOW + timedelta(minutes=1)
    new = leave(state, etag, later, run_id="r2", left_at=later)
    state.put(NEWEST, note)
    assert read(state, now=later).pending == new
