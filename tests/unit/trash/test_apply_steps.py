"""The steps of a removal one by one: each test says what is lost without the line it is about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dredge.errors import LeaseHeldError, UnavailableError
from dredge.kv.rows import Guard, GuardFailedError, Row
from dredge.trash.apply import GROUP_ROWS, Applier, NamedAgainError, Outcome, _groups
from dredge.trash.findings import TrashFinding
from dredge.trash.names import ACTIONS, MARKERS
from dredge.trash.undo import UndoLog
from tests.support.trash import Ground, applier, key_of, partition_of

PATHS = [f"p/{number}" for number in range(8)]


def fates(outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
    return [(outcome.fate, outcome.rows) for outcome in outcomes]


@pytest.fixture
def large(ground: Ground) -> TrashFinding:
    """An orphan of ten rows, which is more than a group may have."""
    ground.world.stage(ground.orphan.decode(), *PATHS)
    return partition_of(ground, ground.orphan)


def overtaken() -> None:
    raise LeaseHeldError("a later try has taken over")


def test_a_try_that_is_overtaken_after_a_guard_failed_deletes_nothing(ground: Ground) -> None:
    orphan, looks = partition_of(ground, ground.orphan), list[int]()

    def overtaken_later() -> None:
        looks.append(1)
        if len(looks) > 1:
            overtaken()

    token = ground.world.token("lake", "main")
    ground.world.store.before_delete.append(
        lambda: ground.world.branch(ground.partition, "main", ground.head, token, sealed=[ground.main])
    )
    with pytest.raises(LeaseHeldError):
        applier(ground, overtaken_later).run([orphan])
    assert ground.orphan_rows() == 2


def test_a_large_partition_that_is_named_stays(ground: Ground, large: TrashFinding) -> None:
    ground.name_orphan()
    assert fates(applier(ground, group_rows=4).run([large])) == [("named", 0)]
    assert ground.orphan_rows() == 10


def test_a_large_partition_that_is_named_after_it_was_read_stays(ground: Ground, large: TrashFinding) -> None:
    ground.before_view(2, ground.name_orphan)
    assert fates(applier(ground, group_rows=4).run([large])) == [("partly", 0)]
    assert ground.orphan_rows() == 10


def test_a_large_partition_with_one_other_byte_stays_whole(ground: Ground, large: TrashFinding) -> None:
    ground.world.kv.set(ground.orphan, b"p/3", b"new")
    assert fates(applier(ground, group_rows=4).run([large])) == [("changed", 0)]
    assert ground.orphan_rows() == 10


def test_a_large_partition_that_is_gone_is_told_as_gone(ground: Ground, large: TrashFinding) -> None:
    for entry in list(ground.world.kv.scan(ground.orphan)):
        ground.world.kv.delete(ground.orphan, entry.key)
    assert fates(applier(ground, group_rows=4).run([large])) == [("gone", 0)]


def test_each_piece_of_a_large_partition_is_in_the_undo_log_before_it_goes(
    ground: Ground, large: TrashFinding
) -> None:
    store, undo, kept = ground.world.store, UndoLog(ground.state.writer, "undo"), list[list[Row]]()
    for number in (1, 2, 3):
        ground.before_deletion(number, lambda: kept.append([*undo.read()]))
    applier(ground, group_rows=4).run([large])
    assert [len(rows) for rows in store.asked] == [4, 4, 2]
    assert [rows[-len(piece) :] for rows, piece in zip(kept, store.asked, strict=True)] == store.asked


def test_nothing_more_goes_after_a_large_partition_was_named_half_way(
    ground: Ground, large: TrashFinding
) -> None:
    """A plan that was wrong about one partition may be wrong about the next."""
    other = ground.world.stage("lake-zzz:1", "a", "b")
    ground.world.store.after_delete.append(ground.name_orphan)
    applying = applier(ground, group_rows=4)
    with pytest.raises(NamedAgainError):
        applying.run([large, partition_of(ground, other)])
    assert applying.rows_deleted == 4, "the first piece, which came back"
    assert len(list(ground.world.kv.scan(other))) == 2
    assert ground.orphan_rows() == 10


def test_nothing_more_goes_after_a_guard_failed_and_what_is_gone_is_named(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ground.world.stage("lake-zzz:1", "a", "b")
    findings = [partition_of(ground, ground.orphan), partition_of(ground, other)]
    delete_rows, calls = ground.world.store.delete_rows, list[int]()

    def fail_half_way(rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        calls.append(len(rows))
        if len(calls) == 1:
            done = delete_rows([row for row in rows if row.partition == ground.orphan])
            raise GuardFailedError("changed", done)
        if len(calls) == 2:
            ground.name_orphan()
            raise GuardFailedError("changed")
        return delete_rows(rows, guards)

    monkeypatch.setattr(ground.world.store, "delete_rows", fail_half_way)
    with pytest.raises(NamedAgainError):
        applier(ground).run(findings)
    assert calls == [4, 2]
    assert len(list(ground.world.kv.scan(other))) == 2
    assert ground.orphan_rows() == 2


def test_a_repository_that_is_recorded_after_its_removal_comes_back(ground: Ground) -> None:
    zombie, _ = ground.world.beginning("slow")
    applying = Applier(
        ground.world.store, UndoLog(ground.state.writer, "undo"), lambda: None, unrecorded=[zombie]
    )
    applying.run([partition_of(ground, zombie)])
    assert not list(ground.world.kv.scan(zombie))
    ground.world.record(zombie)
    with pytest.raises(NamedAgainError):
        applying.verify_removed()
    assert len(list(ground.world.kv.scan(zombie))) == 2


def test_a_lost_answer_counts_as_removed(ground: Ground) -> None:
    """The rows went, the answer did not come: whoever names them afterwards has to find them."""

    def lost() -> None:
        raise UnavailableError("the answer got lost")

    ground.world.store.after_delete.append(lost)
    applying = applier(ground)
    with pytest.raises(UnavailableError):
        applying.run([partition_of(ground, ground.orphan)])
    assert applying.removed_partitions == [ground.orphan]


@pytest.mark.parametrize(("most", "calls"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3])])
def test_no_deletion_has_more_guards_than_the_store_checks_at_once(
    ground: Ground, most: int, calls: list[int]
) -> None:
    """And each has all those of its own rows: a row that goes unguarded can be named meanwhile."""
    store = ground.world.store
    tokens = [ground.world.stage(ground.world.token("lake", name)) for name in ("a", "b", "c")]
    store.rows.guards_max = most  # type: ignore[misc]
    applying = applier(ground)
    assert fates(applying.run([partition_of(ground, token) for token in tokens])) == [("deleted", 2)] * 3
    for rows, guards in zip(store.asked, store.guards, strict=True):
        branches = {row.partition.split(b":")[0].split(b"-")[-1] for row in rows}
        assert {guard.key for guard in guards} >= {b"branches/" + name for name in branches}
    assert [len(guards) for guards in store.guards] == calls
    assert applying.rows_deleted == 6


def test_partitions_go_before_keys_and_markers_last(ground: Ground) -> None:
    """A marker is what leads lakeFS to a partition: as long as that has a row, it stays."""
    findings = [
        TrashFinding(MARKERS, b"lake-a:1", "marker", "trash", "", 1),
        TrashFinding(b"x", b"b", "import-expired", "trash", "", 1),
        TrashFinding(b"x", b"a", "import-expired", "trash", "", 1),
        TrashFinding(b"lake-b:1", None, "staging-orphan", "trash", "", 3),
        TrashFinding(b"lake-a:1", None, "staging-orphan", "trash", "", 3),
    ]
    found = [
        [(finding.partition, finding.key) for finding in group] for group in _groups(findings, GROUP_ROWS)
    ]
    assert found == [
        [(b"lake-a:1", None), (b"lake-b:1", None)],
        [(b"x", b"a"), (b"x", b"b")],
        [(MARKERS, b"lake-a:1")],
    ]


def test_keys_do_not_take_their_partition_along(ground: Ground) -> None:
    key = b"p/0"
    ground.world.stage(ground.orphan.decode(), "p/0")
    applying = applier(ground)
    assert fates(applying.run([key_of(ground, ground.orphan, key)])) == [("deleted", 1)]
    assert applying.removed_partitions == []
    assert ground.orphan_rows() == 2


def test_a_key_that_is_gone_is_not_mistaken_for_the_next_one(ground: Ground) -> None:
    """Many have the same value, which is none."""
    world, keys = ground.world, [b"repos/gone/tasks/a/0", b"repos/gone/tasks/b/0"]
    for key in keys:
        world.kv.set(ACTIONS, key, b"")
    first, last = (key_of(ground, ACTIONS, key) for key in keys)
    world.kv.delete(ACTIONS, keys[0])
    assert fates(applier(ground).run([first])) == [("gone", 0)]
    assert world.kv.get(ACTIONS, keys[1]) == b""
    world.kv.delete(ACTIONS, keys[1])
    assert fates(applier(ground).run([last])) == [("gone", 0)]


def test_only_a_marker_waits_for_the_partition_of_its_name(ground: Ground) -> None:
    for partition in (b"elsewhere", MARKERS):
        ground.world.kv.set(partition, ground.orphan, b"value")
    findings = [key_of(ground, partition, ground.orphan) for partition in (b"elsewhere", MARKERS)]
    outcomes = applier(ground).run(findings)
    assert {outcome.finding.partition: outcome.fate for outcome in outcomes} == {
        b"elsewhere": "deleted",
        MARKERS: "changed",
    }


def test_a_large_partition_stops_when_another_one_is_named_that_went_before(ground: Ground) -> None:
    """A plan that was wrong about one partition may be wrong about the next."""
    large = ground.world.stage("lake-zzz:1", *"abcdef")
    findings = [partition_of(ground, ground.orphan), partition_of(ground, large)]
    ground.before_deletion(2, lambda: ground.world.store.after_delete.append(ground.name_orphan))
    with pytest.raises(NamedAgainError):
        applier(ground, group_rows=2).run(findings)
    assert [len(rows) for rows in ground.world.store.asked] == [2, 2]
    assert len(list(ground.world.kv.scan(large))) == 4
    assert ground.orphan_rows() == 2


def test_without_anything_to_remove_what_went_before_is_looked_after(ground: Ground) -> None:
    applying = applier(ground)
    applying.run([partition_of(ground, ground.orphan)])
    ground.name_orphan()
    with pytest.raises(NamedAgainError):
        applying.run([])
    assert ground.orphan_rows() == 2
