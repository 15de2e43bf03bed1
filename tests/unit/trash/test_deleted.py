"""The cleaner over `graveler_deleted`, as the design's step 2 has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import (
    UnavailableError,
)
from dredge.kv.rows import RowCleaner
from dredge.storage import open_writer
from dredge.trash import deleted
from dredge.trash.apply import NamedAgainError
from dredge.trash.deleted import DeletedOutcome
from dredge.trash.look import contents_of
from dredge.trash.margins import TrashLimits, TrashMargins
from dredge.trash.names import deleted_instance
from dredge.trash.plan import check_limits
from dredge.trash.state import TrashState
from dredge.trash.steps import CleanReport, clean, restore, scan
from dredge.trash.undo import UndoLog, put_back
from tests.support.kv_world import World


@pytest.fixture
def undo(tmp_path: Path) -> UndoLog:
    return UndoLog(open_writer(f"file://{tmp_path}"), "undo")


@pytest.fixture
def world() -> World:
    made = World()
    made.repository("keeper")
    return made


def clean_deleted(store: RowCleaner, undo: UndoLog) -> list[DeletedOutcome]:
    return list(deleted.clean_deleted(store, undo, lambda: None, planned_in(store)))


def planned_in(store: RowCleaner) -> dict[bytes, str]:
    """What a plan that is made now lets go."""
    with store.view() as view:
        found = [deleted_instance(entry.key) for entry in view.scan(b"graveler_deleted")]
        contents = {one.partition: contents_of(view.scan(one.partition)) for one in found if one}
    return {partition: rows.digest if rows else "" for partition, rows in contents.items()}


def rows_of(world: World, partition: bytes) -> int:
    return len(list(world.kv.scan(partition)))


def test_partition_and_entry_go_and_nothing_else(world: World, undo: UndoLog) -> None:
    world.hand_over("one")
    world.hand_over("two")
    before = world.store.all_rows()
    keep = {row for row in before if not row.partition.startswith((b"one-", b"two-", b"graveler_deleted"))}
    outcomes = clean_deleted(world.store, undo)
    assert [(o.fate, o.rows) for o in outcomes] == [("cleaned", 2), ("cleaned", 2)]
    assert world.store.all_rows() == keep
    assert clean_deleted(world.store, undo) == []
    put_back(world.store, undo.read())
    assert world.store.all_rows() == before


@pytest.mark.parametrize("state", [0, 1])
def test_a_life_that_a_record_names_is_skipped_whatever_the_entry_says(
    world: World, undo: UndoLog, state: int
) -> None:
    partition = world.hand_over("lake")
    world.record(partition, state)
    other = world.hand_over("pond")
    outcomes = {o.entry.split("/")[1]: o for o in clean_deleted(world.store, undo)}
    assert outcomes["lake"].fate == "skipped"
    assert rows_of(world, partition) == 2
    assert outcomes["pond"].fate == "cleaned"
    assert rows_of(world, other) == 0


def test_a_failure_skips_the_entry_and_the_next_run_goes_on(
    world: World, undo: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = world.hand_over("bad"), world.hand_over("good")
    delete_rows = world.store.delete_rows

    def failing(rows: Any, guards: Any = ()) -> list[bool]:
        if rows[0].partition == bad:
            raise UnavailableError("throttled")
        return delete_rows(rows, guards)

    monkeypatch.setattr(world.store, "delete_rows", failing)
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["failed", "cleaned"]
    assert rows_of(world, bad) == 2
    assert rows_of(world, good) == 0
    monkeypatch.undo()
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["cleaned"]
    assert rows_of(world, bad) == 0


def clean_all(world: World, state: TrashState) -> CleanReport:
    return clean(
        world.store,
        state,
        clock=world.store.machine_clock,
        margins=TrashMargins(),
        limits=TrashLimits(),
        dry_run=False,
    )


def test_a_run_killed_half_way_is_resumed(
    world: World, undo: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dredge.trash.deleted.GROUP_ROWS", 3)
    partition = world.hand_over("large")
    for number in range(10):
        world.tag(partition, f"t{number}", "nowhere")
    delete_rows = world.store.delete_rows

    def dying(rows: Any, guards: Any = ()) -> list[bool]:
        if world.store.deletions == 2:
            raise KeyboardInterrupt
        return delete_rows(rows, guards)

    monkeypatch.setattr(world.store, "delete_rows", dying)
    with pytest.raises(KeyboardInterrupt):
        clean_deleted(world.store, undo)
    monkeypatch.setattr(world.store, "delete_rows", delete_rows)
    assert rows_of(world, partition) == 6
    assert [(o.fate, o.rows) for o in clean_deleted(world.store, undo)] == [("cleaned", 6)]


def test_a_record_that_comes_right_before_the_deletion_saves_its_partition(
    world: World, undo: UndoLog
) -> None:
    partition = world.hand_over("slow")
    world.store.before_delete.append(lambda: world.record(partition))
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["skipped"]
    assert rows_of(world, partition) == 2


LONGER = b"repo/lake/of-c0000000000000000000"


@pytest.mark.parametrize(
    "key", [b"repo/lake", b"repo/lake/not-an-xid", b"other/lake/x", b"repo/a/b/c", LONGER]
)
def test_an_entry_of_another_shape_is_left_alone(world: World, undo: UndoLog, key: bytes) -> None:
    world.kv.set(b"graveler_deleted", key, b"")
    before = world.store.all_rows()
    assert all(o.fate == "skipped" for o in clean_deleted(world.store, undo))
    assert world.store.all_rows() == before


def test_an_unreadable_record_keeps_the_entry_and_its_rows(world: World, undo: UndoLog) -> None:
    partition = world.hand_over("lake")
    world.kv.set(b"graveler", b"repos/lake", b"\xff\xff")
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["failed"]
    assert rows_of(world, partition) == 2


def test_a_clean_leaves_what_was_handed_over_after_its_plan(world: World, tmp_path: Path) -> None:
    planned = world.hand_over("planned")
    state = TrashState(open_writer(f"file://{tmp_path}/state"))
    options: dict[str, Any] = {"clock": world.store.machine_clock, "margins": TrashMargins()}
    plan = scan(world.store, state, **options).plan
    later, emptied = world.hand_over("later"), world.hand_over("emptied")
    for row in list(world.kv.scan(emptied)):
        world.kv.delete(emptied, row.key)
    report = clean(
        world.store,
        state,
        limits=TrashLimits(),
        planned=plan.run_id,
        planned_digest=plan.digest,
        dry_run=False,
        **options,
    )
    assert {o.entry.split("/")[1]: o.fate for o in report.deleted} == {
        "planned": "cleaned",
        "later": "skipped",
        "emptied": "skipped",
    }
    assert all("not in the plan" in o.message for o in report.deleted if o.fate == "skipped")
    assert (rows_of(world, planned), rows_of(world, later)) == (0, 2)


def test_a_repository_that_is_handed_over_while_a_clean_begins_is_beyond_its_limits(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = world.hand_over("planned")
    later: list[bytes] = []

    def limits_then_another(*arguments: Any) -> None:
        check_limits(*arguments)
        later.append(world.hand_over("later"))

    monkeypatch.setattr("dredge.trash.steps.check_limits", limits_then_another)
    clean(
        world.store,
        TrashState(open_writer(f"file://{tmp_path}/state")),
        clock=world.store.machine_clock,
        margins=TrashMargins(),
        limits=TrashLimits(partitions=1, rows=2),
        dry_run=False,
    )
    assert (rows_of(world, planned), rows_of(world, later[0])) == (0, 2)


@pytest.mark.parametrize("is_empty", [True, False])
def test_what_a_frozen_request_writes_into_a_deleted_repository_is_left_for_the_next_plan(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_empty: bool
) -> None:
    partition = world.hand_over("lake")
    if is_empty:
        for row in list(world.kv.scan(partition)):
            world.kv.delete(partition, row.key)
    rows = rows_of(world, partition)

    def a_row_first(*arguments: Any) -> Iterator[DeletedOutcome]:
        world.tag(partition, "late", "nowhere")
        return deleted.clean_deleted(*arguments)

    monkeypatch.setattr("dredge.trash.steps.clean_deleted", a_row_first)
    state = TrashState(open_writer(f"file://{tmp_path}/state"))
    report = clean_all(world, state)
    assert [(o.fate, o.rows) for o in report.deleted] == [("skipped", 0)]
    assert "other rows than the run planned" in report.deleted[0].message
    assert (rows_of(world, partition), rows_of(world, b"graveler_deleted")) == (rows + 1, 1)
    monkeypatch.undo()
    assert [(o.fate, o.rows) for o in clean_all(world, state).deleted] == [("cleaned", rows + 1)]


@pytest.mark.parametrize("key", [b"a", b"z"])
def test_only_rows_go_that_the_plan_saw(
    world: World, undo: UndoLog, monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    """Also where what came since has a place before what is left."""
    monkeypatch.setattr("dredge.trash.deleted.GROUP_ROWS", 1)
    partition = world.hand_over("lake")
    world.store.before_delete.append(lambda: world.kv.set(partition, key, b"late"))
    (outcome,) = clean_deleted(world.store, undo)
    assert (outcome.fate, outcome.rows) == ("skipped", 2)
    assert [row.key for row in world.kv.scan(partition)] == [key]
    assert rows_of(world, b"graveler_deleted") == 1


def test_row_that_is_written_again_between_two_groups_stays(
    world: World, undo: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dredge.trash.deleted.GROUP_ROWS", 1)
    partition = world.hand_over("lake")
    *_, last = world.kv.scan(partition)
    world.store.before_delete.append(lambda: world.kv.set(partition, last.key, b"new"))
    (outcome,) = clean_deleted(world.store, undo)
    assert (outcome.fate, outcome.rows) == ("skipped", 1)
    assert [row.value for row in world.kv.scan(partition)] == [b"new"]


def test_a_repository_that_was_handed_over_and_is_named_again_is_put_back(
    world: World, tmp_path: Path
) -> None:
    partition = world.hand_over("lake")
    state = TrashState(open_writer(f"file://{tmp_path}/state"))
    done = clean_all(world, state)
    assert done.rows_removed == 3, "the repository's rows and its entry"
    assert restore(world.store, state, done.scan.plan.run_id)["rows"] == done.rows_removed
    world.record(partition)
    with pytest.raises(NamedAgainError):
        clean_all(world, state)
    assert rows_of(world, partition) == 2
