"""The cleaner over `graveler_deleted`, as the design's step 2 has it, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from dredge.errors import LeaseHeldError, UnavailableError
from dredge.kv.rows import Row, RowCleaner
from dredge.storage import open_writer
from dredge.trash import deleted
from dredge.trash.apply import NamedAgainError
from dredge.trash.deleted import DeletedOutcome
from dredge.trash.look import contents_of
from dredge.trash.names import deleted_instance
from dredge.trash.restore import restore
from dredge.trash.undo import UndoLog, put_back
from tests.support.kv_world import DAY, World
from tests.support.trash import Ground


@pytest.fixture
def undo(tmp_path: Path) -> UndoLog:
    return UndoLog(open_writer(f"file://{tmp_path}"), "undo")


def clean_deleted(store: RowCleaner, undo: UndoLog, group_rows: int = 500) -> list[DeletedOutcome]:
    return list(deleted.clean_deleted(store, undo, lambda: None, planned_in(store), group_rows))


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


def test_a_failure_skips_the_entry_and_the_next_run_goes_on(world: World, undo: UndoLog) -> None:
    bad, good = world.hand_over("bad"), world.hand_over("good")

    def throttled() -> None:
        raise UnavailableError("throttled")

    world.store.before_delete.append(throttled)
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["failed", "cleaned"]
    assert rows_of(world, bad) == 2
    assert rows_of(world, good) == 0
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["cleaned"]
    assert rows_of(world, bad) == 0


def test_a_run_killed_half_way_is_resumed(world: World, undo: UndoLog) -> None:
    partition = world.hand_over("large")
    for number in range(10):
        world.tag(partition, f"t{number}", "nowhere")

    def die() -> None:
        raise KeyboardInterrupt

    world.store.before_delete.append(lambda: world.store.after_delete.append(die))
    with pytest.raises(KeyboardInterrupt):
        clean_deleted(world.store, undo, group_rows=3)
    assert rows_of(world, partition) == 9
    assert [(o.fate, o.rows) for o in clean_deleted(world.store, undo)] == [("cleaned", 9)]


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


def test_a_clean_leaves_what_was_handed_over_after_its_plan(ground: Ground) -> None:
    world = ground.world
    planned = world.hand_over("planned")
    ground.scan()
    plan = ground.scan(DAY).plan
    later, emptied = world.hand_over("later"), world.hand_over("emptied")
    for row in list(world.kv.scan(emptied)):
        world.kv.delete(emptied, row.key)
    report = ground.clean(planned=plan.run_id, planned_digest=plan.digest)
    assert {o.entry.split("/")[1]: o.fate for o in report.deleted} == {
        "planned": "cleaned",
        "later": "skipped",
        "emptied": "skipped",
    }
    assert (rows_of(world, planned), rows_of(world, later)) == (0, 2)


def test_a_repository_that_is_handed_over_while_a_clean_begins_stays(ground: Ground) -> None:
    world = ground.world
    planned = world.hand_over("planned")
    ground.scan()
    later: list[bytes] = []
    ground.before_view(3, lambda: later.append(world.hand_over("later")))
    ground.clean(DAY)
    assert (rows_of(world, planned), rows_of(world, later[0])) == (0, 2)


@pytest.mark.parametrize("is_empty", [True, False])
def test_what_a_frozen_request_writes_into_a_deleted_repository_is_left_for_the_next_plan(
    ground: Ground, is_empty: bool
) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    if is_empty:
        for row in list(world.kv.scan(partition)):
            world.kv.delete(partition, row.key)
    rows = rows_of(world, partition)
    ground.scan()
    ground.before_view(4, lambda: world.tag(partition, "late", "nowhere"))  # after the second look
    report = ground.clean(DAY)
    assert [(o.fate, o.rows) for o in report.deleted] == [("skipped", 0)]
    assert (rows_of(world, partition), rows_of(world, b"graveler_deleted")) == (rows + 1, 1)
    assert ground.clean().deleted == (), "with other rows it waits anew"
    assert [(o.fate, o.rows) for o in ground.clean(DAY).deleted] == [("cleaned", rows + 1)]


@pytest.mark.parametrize("key", [b"a", b"z"])
def test_only_rows_go_that_the_plan_saw(world: World, undo: UndoLog, key: bytes) -> None:
    partition = world.hand_over("lake")
    world.store.before_delete.append(lambda: world.kv.set(partition, key, b"late"))
    (outcome,) = clean_deleted(world.store, undo, group_rows=1)
    assert (outcome.fate, outcome.rows) == ("skipped", 2)
    assert [row.key for row in world.kv.scan(partition)] == [key]
    assert rows_of(world, b"graveler_deleted") == 1


def test_row_that_is_written_again_between_two_groups_stays(world: World, undo: UndoLog) -> None:
    partition = world.hand_over("lake")
    *_, last = world.kv.scan(partition)
    world.store.before_delete.append(lambda: world.kv.set(partition, last.key, b"new"))
    (outcome,) = clean_deleted(world.store, undo, group_rows=1)
    assert (outcome.fate, outcome.rows) == ("skipped", 1)
    assert [row.value for row in world.kv.scan(partition)] == [b"new"]


def test_a_repository_that_was_handed_over_and_is_named_again_is_put_back(ground: Ground) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    ground.scan()
    done = ground.clean(DAY)
    assert done.rows_removed == 5, "an orphan, the repository's rows and its entry"
    assert restore(world.store, ground.state, done.scan.plan.run_id)["rows"] == done.rows_removed
    world.record(partition)
    with pytest.raises(NamedAgainError):
        ground.clean()
    assert rows_of(world, partition) == 2


def test_the_record_of_a_longer_name_is_not_its_own(world: World, undo: UndoLog) -> None:
    partition = world.hand_over("lake")
    world.repository("lake2")
    assert [o.fate for o in clean_deleted(world.store, undo)] == ["cleaned"]
    assert rows_of(world, partition) == 0


def test_rows_and_entry_are_in_the_undo_log_before_the_last_look_at_the_right(
    world: World, undo: UndoLog
) -> None:
    partition = world.hand_over("lake")
    rows = {row for row in world.store.all_rows() if row.partition == partition}
    (entry,) = [row for row in world.store.all_rows() if row.partition == b"graveler_deleted"]
    logged: list[set[Row]] = []

    def look() -> None:
        logged.append(set(undo.read()))

    (outcome,) = deleted.clean_deleted(world.store, undo, look, planned_in(world.store))
    assert outcome.fate == "cleaned"
    assert logged == [rows, rows | {entry}]


def test_an_entry_that_changes_after_its_rows_went_stays(world: World, undo: UndoLog) -> None:
    partition = world.hand_over("lake")
    (entry,) = world.kv.scan(b"graveler_deleted")
    world.store.after_delete.append(lambda: world.kv.set(b"graveler_deleted", entry.key, b"new"))
    (outcome,) = clean_deleted(world.store, undo)
    assert (outcome.fate, outcome.rows, outcome.rows_removed) == ("skipped", 2, 2)
    assert outcome.removed_partition == partition
    assert rows_of(world, b"graveler_deleted") == 1


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
