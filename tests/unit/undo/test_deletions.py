"""Records of deletions: one of a run covers every sweep of it."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dredge.errors import ConflictError, FormatError
from dredge.sets.hashes import Hashes
from dredge.storage import ObjectWriter, open_writer
from dredge.undo.deletions import note_deletion, read_deletions, read_hashes
from dredge.undo.ways import UndoWay
from tests.support.memory_store import forget_memory_store


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    name = f"deletions-{uuid.uuid4().hex[:8]}"
    yield open_writer(f"memory://{name}/state")
    forget_memory_store(name)


def note(state: ObjectWriter, attempt: int, *hashes: int) -> None:
    run = SimpleNamespace(
        plan=SimpleNamespace(run_id="run", run_uri="memory://runs/run", undo=UndoWay(way="versions", why="")),
        state=state,
        folder=SimpleNamespace(label=f"run-{attempt}"),
        store_now=lambda: datetime(2026, 3, attempt, tzinfo=UTC),
    )
    note_deletion(cast(Any, run), hashes_of(*hashes))


def hashes_of(*hashes: int) -> Hashes:
    return np.array(hashes, dtype=np.uint64)


def noted(state: ObjectWriter) -> list[int]:
    (found,) = read_hashes(state, read_deletions(state).found)
    return [] if isinstance(found, str) else found.tolist()


def test_a_sweep_after_steps_were_done_again_keeps_the_objects_of_the_first(state: ObjectWriter) -> None:
    note(state, 1, 1, 5, 9)
    note(state, 2, 5, 7)
    assert noted(state) == [1, 5, 7, 9]
    note(state, 3)
    assert noted(state) == [1, 5, 7, 9]


def test_a_sweep_stops_where_the_record_of_the_first_is_damaged(state: ObjectWriter) -> None:
    note(state, 1, 1, 5, 9)
    state.put(read_deletions(state).found[0].hashes.key, b"short")
    with pytest.raises(FormatError):
        note(state, 2, 5, 7)


def test_a_sweep_that_slept_does_not_take_the_objects_of_a_later_one_out_of_the_record(
    state: ObjectWriter,
) -> None:
    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(state, name)

        def put(self, key: str, data: bytes) -> str | None:
            if key.endswith(".u64"):
                note(state, 2, 5, 7)
            return state.put(key, data)

    with pytest.raises(ConflictError):
        note(cast(ObjectWriter, Slow()), 1, 1, 9)
    assert noted(state) == [5, 7]
