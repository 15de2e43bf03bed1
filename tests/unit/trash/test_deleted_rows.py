"""The cleaner over `graveler_deleted`, row by row: what it looks at before each deletion, and what it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dredge.errors import LeaseHeldError
from dredge.kv.rows import Row
from dredge.storage import open_writer
from dredge.trash import deleted
from dredge.trash.report import deleted_row
from dredge.trash.undo import UndoLog
from tests.support.kv_world import World
from tests.unit.trash.test_deleted import clean_deleted, planned_in, rows_of


@pytest.fixture
def undo(tmp_path: Path) -> UndoLog:
    return UndoLog(open_writer(f"file://{tmp_path}"), "undo")


def test_the_record_of_a_longer_name_is_not_its_own(world: World, undo: UndoLog) -> None:
    partition = world.hand_over("lake")
    world.repository("lake2")
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["cleaned"]
    assert rows_of(world, partition) == 0


def test_rows_and_entry_are_in_the_undo_log_before_the_last_look_at_the_right(
    world: World, undo: UndoLog
) -> None:
    """Nothing comes between that look and the deletion."""
    partition = world.hand_over("lake")
    rows = {row for row in world.store.all_rows() if row.partition == partition}
    (entry,) = [row for row in world.store.all_rows() if row.partition == b"graveler_deleted"]
    logged: list[set[Row]] = []

    def look() -> None:
        logged.append(set(undo.read()))

    assert [o.fate for o in deleted.clean_deleted(world.store, undo, look, planned_in(world.store))] == [
        "cleaned"
    ]
    assert logged == [rows, rows | {entry}]


def test_an_entry_that_changes_after_its_rows_went_stays(
    world: World, undo: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = world.hand_over("lake")
    delete_rows = world.store.delete_rows

    def change(rows: Any, guards: Any = ()) -> list[bool]:
        if rows[0].partition != partition:
            world.kv.set(b"graveler_deleted", rows[0].key, b"new")
        return delete_rows(rows, guards)

    monkeypatch.setattr(world.store, "delete_rows", change)
    (outcome,) = clean_deleted(world.store, undo)
    assert (outcome.fate, outcome.rows, outcome.rows_removed) == ("skipped", 2, 2)
    assert outcome.removed_partition == partition
    assert deleted_row(outcome)["rows_deleted"] == 2
    assert len(list(world.kv.scan(b"graveler_deleted"))) == 1


def test_a_lost_right_keeps_the_next_entries_back(world: World, undo: UndoLog) -> None:
    for name in ("one", "two"):
        world.hand_over(name)

    def lost() -> None:
        raise LeaseHeldError("a later try has taken over")

    found = deleted.clean_deleted(world.store, undo, lost, planned_in(world.store))
    assert next(found).fate == "failed"
    with pytest.raises(LeaseHeldError):
        next(found)
    assert undo.files == 1, "of the second nothing was read"


def test_rows_that_change_whenever_they_are_to_go_are_left(
    world: World, undo: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hand_over("lake")
    answers = [[False, False]]
    monkeypatch.setattr(world.store, "delete_rows", lambda *_: answers.pop())
    (outcome,) = clean_deleted(world.store, undo)
    assert (outcome.fate, outcome.rows, outcome.message) == (
        "skipped",
        0,
        "its rows change as they are deleted",
    )
