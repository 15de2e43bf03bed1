"""What must not go, whatever happens between the looks and the deletion; breaking a step makes its test
fail."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from dredge import xid
from dredge.errors import ConfigError, LeaseHeldError, UnavailableError
from dredge.kv.rows import GuardFailedError, Row
from dredge.trash.apply import Applier, NamedAgainError, Outcome, named_now
from dredge.trash.findings import TrashFinding
from dredge.trash.look import read_references
from dredge.trash.names import ACTIONS, REPOSITORIES
from dredge.trash.rules import OF_EARLIER_LIFE, OF_MISSING_REPOSITORY, OF_MISSING_RUN
from dredge.trash.undo import UndoLog
from dredge.undo.alarms import acknowledge_alarms
from tests.support.killing import failing_writes
from tests.support.kv_world import DAY, START
from tests.support.trash import Ground, applier, fates, key_of, partition_of


def test_what_is_named_after_the_second_look_stays(ground: Ground) -> None:
    ground.scan()
    ground.before_view(4, ground.name_orphan)
    assert fates(ground.clean(DAY)) == ["named"]
    assert ground.orphan_rows() == 2


def test_what_changes_after_the_second_look_stays_whole(ground: Ground) -> None:
    ground.scan()
    ground.before_view(4, lambda: ground.world.stage(ground.orphan.decode(), "late"))
    assert fates(ground.clean(DAY)) == ["changed"]
    assert ground.orphan_rows() == 3


def test_a_key_that_changes_after_the_second_look_stays(ground: Ground) -> None:
    key = ground.world.import_status(ground.partition, START - 9 * DAY)
    ground.scan()
    ground.before_view(4, lambda: ground.world.kv.set(ground.partition, key, b"going on"))
    assert fates(ground.clean(DAY, kinds=["import-expired"])) == ["changed"]
    assert ground.world.kv.get(ground.partition, key) == b"going on"


def test_hook_results_stay_when_the_record_of_their_repository_comes_back(ground: Ground) -> None:
    world = ground.world
    record = world.kv.get(REPOSITORIES, b"repos/lake")
    assert record is not None
    run = world.run("lake", START + timedelta(seconds=5))
    task = f"repos/lake/tasks/{run}/0000".encode()
    finding = TrashFinding(ACTIONS, task, OF_MISSING_REPOSITORY, "trash", "")
    with world.store.view() as view:
        assert named_now(finding, read_references(view))
    world.kv.delete(REPOSITORIES, b"repos/lake")
    with world.store.view() as view:
        assert not named_now(finding, read_references(view))


def test_hook_results_stay_when_their_run_is_written_right_before_the_deletion(ground: Ground) -> None:
    world = ground.world
    run = world.run("lake", START + timedelta(seconds=5), with_run=False)
    before = {row.key for row in world.kv.scan(ACTIONS)}
    assert before
    ground.scan(DAY)
    ground.scan(DAY)
    world.store.before_delete.append(lambda: world.kv.set(ACTIONS, f"repos/lake/runs/{run}".encode(), b""))
    assert set(fates(ground.clean(9 * DAY, kinds=[OF_MISSING_RUN]))) == {"busy"}
    assert before < {row.key for row in world.kv.scan(ACTIONS)}


@pytest.mark.parametrize("view", [3, 4])
def test_hook_results_of_an_earlier_life_stay_when_somebody_brings_that_life_back(
    ground: Ground, view: int
) -> None:
    world, key = ground.world, b"repos/lake"
    first = world.kv.get(REPOSITORIES, key)
    assert first is not None
    world.run("lake", START + timedelta(seconds=5))
    results = {row.key for row in world.kv.scan(ACTIONS)}
    world.store.now += DAY
    world.record(world.beginning("lake")[0])
    ground.scan(DAY)
    ground.before_view(view, lambda: world.kv.set(REPOSITORIES, key, first))
    assert set(fates(ground.clean(DAY, kinds=[OF_EARLIER_LIFE]))) == ({"named"} if view == 4 else set())
    assert {row.key for row in world.kv.scan(ACTIONS)} == results


def test_what_is_named_right_before_the_deletion_stays(ground: Ground) -> None:
    ground.scan()
    ground.world.store.before_delete.append(ground.name_orphan)
    assert fates(ground.clean(DAY)) == ["busy"]
    assert ground.orphan_rows() == 2


def test_a_row_that_changes_right_before_the_deletion_stays(ground: Ground) -> None:
    ground.scan()
    ground.world.store.before_delete.append(lambda: ground.world.kv.set(ground.orphan, b"a/1", b"new"))
    assert fates(ground.clean(DAY)) == ["partly"]
    assert [entry.key for entry in ground.world.kv.scan(ground.orphan)] == [b"a/1"]


def test_a_repository_whose_record_comes_right_before_the_deletion_stays(ground: Ground) -> None:
    zombie, _ = ground.world.beginning("slow", uid=xid.new_xid(START - 9 * DAY))
    ground.scan()
    ground.world.store.before_delete.append(lambda: ground.world.record(zombie))
    report = ground.clean(DAY, kinds=["zombie-create"])
    assert fates(report) == ["busy"]
    assert len(list(ground.world.kv.scan(zombie))) == 2


def test_what_was_removed_and_is_named_afterwards_comes_back_and_stops_the_run(ground: Ground) -> None:
    ground.scan()
    ground.world.store.after_delete.append(ground.name_orphan)
    with pytest.raises(NamedAgainError):
        ground.clean(DAY)
    assert ground.orphan_rows() == 2
    assert ground.report()["status"] == "stopped"
    assert ground.state.open_run() is None, "what it took is back: there is nothing to verify"
    acknowledge_alarms(ground.state.writer, "trash", "looked into")
    assert ground.clean().status == "done"


def test_what_is_named_long_after_its_removal_is_reported_and_put_back(ground: Ground) -> None:
    ground.scan()
    ground.clean(DAY)
    ground.name_orphan()
    found = [f for f in ground.scan(60 * DAY).findings if f.kind == "named-after-removal"]
    assert [(f.partition, f.verdict) for f in found] == [(ground.orphan, "report")]
    with pytest.raises(NamedAgainError) as caught:
        ground.clean()
    assert (caught.value.kind, caught.value.exit_code) == ("alarm", 10)
    assert ground.orphan_rows() == 2
    acknowledge_alarms(ground.state.writer, "trash", "looked into")
    assert ground.clean().status == "done"
    assert not ground.scan().findings


def test_rows_are_in_the_undo_file_before_they_are_deleted(ground: Ground) -> None:
    ground.scan()
    kept: list[Row] = []
    ground.world.store.before_delete.append(
        lambda: kept.extend(ground.state.undo(ground.state.runs()[0]).read())
    )
    ground.clean(DAY)
    assert [kept] == ground.world.store.asked


def test_without_an_undo_file_nothing_is_deleted(ground: Ground) -> None:
    ground.scan()
    with failing_writes("/undo/", UnavailableError("no space left")), pytest.raises(UnavailableError):
        ground.clean(DAY)
    assert ground.orphan_rows() == 2


def test_a_marker_stays_while_its_partition_has_a_row(ground: Ground) -> None:
    token = ground.world.token("lake", "main")
    ground.world.queue(token)
    ground.scan()
    ground.before_view(4, lambda: ground.world.stage(token))
    assert fates(ground.clean(DAY, kinds=["marker"])) == ["changed"]
    assert ground.world.kv.get(b"cleanup-tokens", token.encode())


def test_only_the_asked_kinds_go(ground: Ground) -> None:
    key = ground.world.import_status(ground.partition, START - 9 * DAY)
    ground.scan()
    report = ground.clean(DAY, kinds=["import-expired"])
    assert [o.finding.key for o in report.outcomes] == [key]
    assert ground.orphan_rows() == 2
    with pytest.raises(ConfigError):
        ground.clean(kinds=["commits"])


PATHS = [f"p/{number}" for number in range(8)]


def fates_and_rows(outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
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
    assert fates_and_rows(applier(ground, group_rows=4).run([large])) == [("named", 0)]
    assert ground.orphan_rows() == 10


def test_a_large_partition_that_is_named_after_it_was_read_stays(ground: Ground, large: TrashFinding) -> None:
    ground.before_view(2, ground.name_orphan)
    assert fates_and_rows(applier(ground, group_rows=4).run([large])) == [("partly", 0)]
    assert ground.orphan_rows() == 10


def test_a_large_partition_with_one_other_byte_stays_whole(ground: Ground, large: TrashFinding) -> None:
    ground.world.kv.set(ground.orphan, b"p/3", b"new")
    assert fates_and_rows(applier(ground, group_rows=4).run([large])) == [("changed", 0)]
    assert ground.orphan_rows() == 10


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
    other = ground.world.stage("lake-zzz:1", "a", "b")
    ground.world.store.after_delete.append(ground.name_orphan)
    applying = applier(ground, group_rows=4)
    with pytest.raises(NamedAgainError):
        applying.run([large, partition_of(ground, other)])
    assert applying.rows_deleted == 4, "the first piece, which came back"
    assert len(list(ground.world.kv.scan(other))) == 2
    assert ground.orphan_rows() == 10


def test_nothing_more_goes_after_a_guard_failed_and_what_is_gone_is_named(ground: Ground) -> None:
    other = ground.world.stage("lake-zzz:1", "a", "b")
    findings = [partition_of(ground, ground.orphan), partition_of(ground, other)]
    store = ground.world.store

    def fail_half_way() -> None:
        done = store.rows.delete_rows([row for row in store.asked[-1] if row.partition == ground.orphan])
        store.before_delete.append(fail_again)
        raise GuardFailedError("changed", done)

    def fail_again() -> None:
        ground.name_orphan()
        raise GuardFailedError("changed")

    store.before_delete.append(fail_half_way)
    with pytest.raises(NamedAgainError):
        applier(ground).run(findings)
    assert [len(rows) for rows in store.asked] == [4, 2]
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
    store = ground.world.store
    tokens = [ground.world.stage(ground.world.token("lake", name)) for name in ("a", "b", "c")]
    store.rows.guards_max = most  # type: ignore[misc]
    applying = applier(ground)
    assert (
        fates_and_rows(applying.run([partition_of(ground, token) for token in tokens]))
        == [("deleted", 2)] * 3
    )
    for rows, guards in zip(store.asked, store.guards, strict=True):
        branches = {row.partition.split(b":")[0].split(b"-")[-1] for row in rows}
        assert {guard.key for guard in guards} >= {b"branches/" + name for name in branches}
    assert [len(guards) for guards in store.guards] == calls
    assert applying.rows_deleted == 6


def test_keys_do_not_take_their_partition_along(ground: Ground) -> None:
    key = b"p/0"
    ground.world.stage(ground.orphan.decode(), "p/0")
    applying = applier(ground)
    assert fates_and_rows(applying.run([key_of(ground, ground.orphan, key)])) == [("deleted", 1)]
    assert applying.removed_partitions == []
    assert ground.orphan_rows() == 2


def test_a_key_that_is_gone_is_not_mistaken_for_the_next_one(ground: Ground) -> None:
    world, keys = ground.world, [b"repos/gone/tasks/a/0", b"repos/gone/tasks/b/0"]
    for key in keys:
        world.kv.set(ACTIONS, key, b"")
    first, last = (key_of(ground, ACTIONS, key) for key in keys)
    world.kv.delete(ACTIONS, keys[0])
    assert fates_and_rows(applier(ground).run([first])) == [("gone", 0)]
    assert world.kv.get(ACTIONS, keys[1]) == b""
    world.kv.delete(ACTIONS, keys[1])
    assert fates_and_rows(applier(ground).run([last])) == [("gone", 0)]


def test_a_large_partition_stops_when_another_one_is_named_that_went_before(ground: Ground) -> None:
    large = ground.world.stage("lake-zzz:1", *"abcdef")
    findings = [partition_of(ground, ground.orphan), partition_of(ground, large)]
    ground.before_deletion(2, lambda: ground.world.store.after_delete.append(ground.name_orphan))
    with pytest.raises(NamedAgainError):
        applier(ground, group_rows=2).run(findings)
    assert [len(rows) for rows in ground.world.store.asked] == [2, 2]
    assert len(list(ground.world.kv.scan(large))) == 4
    assert ground.orphan_rows() == 2
