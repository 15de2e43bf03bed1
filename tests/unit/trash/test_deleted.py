"""Repositories handed over in `graveler_deleted` (step 2 of the design): their partition goes, then the entry."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import batched

import pytest

from dredge.errors import UnavailableError
from dredge.kv.rows import Guard, GuardFailedError, Row
from dredge.trash.apply import NamedAgainError
from dredge.trash.restore import restore
from dredge.trash.steps import CleanReport
from tests.support.kv_world import DAY, World
from tests.support.memory_rows import FrozenView, MemoryRows
from tests.support.trash import Ground

ENTRIES = b"graveler_deleted"
KINDS = {"kinds": ["deleted-repository"]}


class Transactions(MemoryRows):
    """Deletes two rows at a time, each pair under all guards, and lets something happen in between."""

    def __init__(self, world: World, between: Callable[[], object] = lambda: None) -> None:
        super().__init__(world.kv)
        self.between = between
        self.views = 0

    def view(self) -> AbstractContextManager[FrozenView]:
        self.views += 1
        return super().view()

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        done: list[bool] = []
        for pair in batched(rows, 2):
            try:
                done += super().delete_rows(pair, guards)
            except GuardFailedError as error:
                raise GuardFailedError(str(error), done) from None
            between, self.between = self.between, lambda: None
            between()
        return done


def rows_of(world: World, partition: bytes) -> int:
    return len(list(world.kv.scan(partition)))


def fates(report: CleanReport) -> dict[str, str]:
    return {outcome.finding.name: outcome.fate for outcome in report.outcomes}


def entry_of(partition: bytes) -> bytes:
    return b"repo/" + partition[:-21] + b"/" + partition[-20:]


def test_partition_and_entry_go_in_one_run_and_nothing_else(ground: Ground) -> None:
    world = ground.world
    gone = {world.hand_over("one"), world.hand_over("two"), ENTRIES}
    before = world.store.all_rows()
    ground.scan()
    done = ground.clean(DAY, **KINDS)
    assert (done.status, done.rows_removed, set(fates(done).values())) == ("done", 6, {"deleted"})
    assert world.store.all_rows() == {row for row in before if row.partition not in gone}
    assert restore(world.store, ground.state, done.scan.plan.run_id)["rows"] == 6
    restore(world.store, ground.state, done.scan.plan.run_id, dry_run=False)
    assert world.store.all_rows() == before


@pytest.mark.parametrize("recorded", [0, 1])
@pytest.mark.parametrize("view", [3, 4])
def test_a_life_that_a_record_names_stays_whatever_the_entry_says(
    ground: Ground, recorded: int, view: int
) -> None:
    world = ground.world
    partition, other = world.hand_over("pond"), world.hand_over("tarn")
    ground.scan()
    ground.before_view(view, lambda: world.record(partition, recorded))
    ground.clean(DAY, **KINDS)
    assert (rows_of(world, partition), rows_of(world, other)) == (2, 0)
    assert world.kv.get(ENTRIES, entry_of(partition)) is not None


@pytest.mark.parametrize("recorded", [0, 1])
def test_an_entry_without_rows_stays_while_a_record_names_its_life(ground: Ground, recorded: int) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    for row in list(world.kv.scan(partition)):
        world.kv.delete(partition, row.key)
    ground.scan()
    ground.before_view(4, lambda: world.record(partition, recorded))
    assert set(fates(ground.clean(DAY, **KINDS)).values()) == {"named"}
    assert world.kv.get(ENTRIES, entry_of(partition)) is not None


def test_a_record_that_comes_right_before_the_deletion_saves_its_partition(ground: Ground) -> None:
    world = ground.world
    partition = world.hand_over("slow")
    ground.scan()
    world.store.before_delete.append(lambda: world.record(partition))
    assert ground.clean(DAY, **KINDS).status == "partial"
    assert (rows_of(world, partition), rows_of(world, ENTRIES)) == (2, 1)


def test_a_failure_of_one_repository_is_no_failure_of_the_next(ground: Ground) -> None:
    world = ground.world
    bad, good = world.hand_over("bad"), world.hand_over("good")

    def throttled() -> None:
        world.store.before_delete.append(throttled)
        if bad in {row.partition for row in world.store.asked[-1]}:
            raise UnavailableError("throttled")

    ground.scan()
    world.store.before_delete.append(throttled)
    with pytest.raises(UnavailableError, match="bad-"):
        ground.clean(DAY, **KINDS)
    assert (ground.report()["status"], ground.report()["rows_removed"]) == ("failed", 3)
    assert ground.state.open_run() is not None
    assert (rows_of(world, bad), rows_of(world, good), rows_of(world, ENTRIES)) == (2, 0, 1)
    world.store.before_delete.clear()
    assert ground.clean(**KINDS).status == "done"
    assert (rows_of(world, bad), rows_of(world, ENTRIES)) == (0, 0)


def test_deleted_repositories_share_their_looks(ground: Ground) -> None:
    rows = Transactions(ground.world)
    ground.world.store.rows = rows

    def views(repositories: int) -> int:
        for number in range(repositories):
            ground.world.hand_over(f"r{repositories}-{number}")
        ground.scan()
        before = rows.views
        assert set(fates(ground.clean(DAY, **KINDS)).values()) == {"deleted"}
        return rows.views - before

    assert views(3) == views(30)


def test_what_one_deletion_removed_is_compared_before_the_next_one(ground: Ground) -> None:
    world = ground.world
    first, _, last = (world.hand_over(name) for name in ("one", "pond", "tarn"))
    world.store.rows.guards_max = 2  # type: ignore[misc]
    ground.scan()
    world.store.after_delete.append(lambda: world.record(first))
    with pytest.raises(NamedAgainError):
        ground.clean(DAY, **KINDS)
    assert (rows_of(world, first), rows_of(world, last)) == (2, 2)


def test_after_a_failed_guard_each_repository_has_a_look_of_its_own(ground: Ground) -> None:
    world = ground.world
    first, *others = (world.hand_over(name) for name in ("one", "pond", "tarn"))
    world.store.rows = Transactions(world, lambda: world.record(first))
    ground.scan()
    with pytest.raises(NamedAgainError):
        ground.clean(DAY, **KINDS)
    assert [rows_of(world, partition) for partition in (first, *others)] == [2, 2, 2]


def test_a_changed_guard_of_one_repository_keeps_no_other(ground: Ground) -> None:
    world = ground.world
    named, other = world.hand_over("pond"), world.hand_over("tarn")
    ground.scan()
    world.store.before_delete.append(lambda: world.record(named))
    ground.clean(DAY, **KINDS)
    assert (rows_of(world, named), rows_of(world, other)) == (2, 0)


def test_the_rest_of_a_killed_run_goes_later(ground: Ground) -> None:
    world = ground.world
    partition = world.hand_over("large")
    for number in range(10):
        world.tag(partition, f"t{number}", "nowhere")
    ground.scan()
    world.store.now += DAY
    ground.killed(group_rows=3, **KINDS)
    assert rows_of(world, partition) == 9
    ground.clean(**KINDS)
    assert ground.clean(DAY, **KINDS).status == "done"
    assert (rows_of(world, partition), rows_of(world, ENTRIES)) == (0, 0)


LONGER = b"repo/lake/of-c0000000000000000000"


@pytest.mark.parametrize(
    "key", [b"repo/lake", b"repo/lake/not-an-xid", b"other/lake/x", b"repo/a/b/c", LONGER]
)
def test_an_entry_of_another_shape_is_left_alone(ground: Ground, key: bytes) -> None:
    ground.world.kv.set(ENTRIES, key, b"")
    ground.scan()
    assert fates(ground.clean(DAY, **KINDS)) == {}
    assert ground.world.kv.get(ENTRIES, key) == b""


def test_a_clean_leaves_what_was_handed_over_after_its_plan(ground: Ground) -> None:
    world = ground.world
    planned = world.hand_over("planned")
    ground.scan()
    plan = ground.scan(DAY).plan
    later, emptied = world.hand_over("later"), world.hand_over("emptied")
    for row in list(world.kv.scan(emptied)):
        world.kv.delete(emptied, row.key)
    ground.clean(planned=plan.run_id, planned_digest=plan.digest)
    assert (rows_of(world, planned), rows_of(world, later)) == (0, 2)
    left = {entry.key for entry in world.kv.scan(ENTRIES)}
    assert left == {entry_of(later), entry_of(emptied)}


@pytest.mark.parametrize("view", [3, 4])
def test_a_repository_that_is_handed_over_while_a_clean_works_stays(ground: Ground, view: int) -> None:
    world = ground.world
    planned = world.hand_over("planned")
    ground.scan()
    later: list[bytes] = []
    ground.before_view(view, lambda: later.append(world.hand_over("later")))
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
    assert set(fates(ground.clean(DAY, **KINDS)).values()) == {"changed"}
    assert (rows_of(world, partition), rows_of(world, ENTRIES)) == (rows + 1, 1)
    ground.clean(**KINDS)
    assert rows_of(world, partition) == rows + 1, "with other rows it waits anew"
    ground.clean(DAY, **KINDS)
    assert (rows_of(world, partition), rows_of(world, ENTRIES)) == (0, 0)


@pytest.mark.parametrize("key", [b"a", b"z"])
@pytest.mark.parametrize("group_rows", [1, 500])
def test_only_rows_go_that_the_plan_saw_and_the_entry_stays_with_the_others(
    ground: Ground, key: bytes, group_rows: int
) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    ground.scan()
    world.store.before_delete.append(lambda: world.kv.set(partition, key, b"late"))
    ground.clean(DAY, group_rows=group_rows, **KINDS)
    assert [row.key for row in world.kv.scan(partition)] == [key]
    assert rows_of(world, ENTRIES) == 1


def test_an_entry_that_changes_after_its_rows_went_stays(ground: Ground) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    ground.scan()
    world.store.after_delete.append(lambda: world.kv.set(ENTRIES, entry_of(partition), b"new"))
    done = ground.clean(DAY, **KINDS)
    assert (done.status, done.rows_removed, rows_of(world, ENTRIES)) == ("partial", 2, 1)
    assert partition in ground.state.removed()


def test_a_repository_that_was_handed_over_and_is_named_again_is_put_back(ground: Ground) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    ground.scan()
    done = ground.clean(DAY)
    assert done.rows_removed == 5, "an orphan, the repository's rows and its entry"
    world.record(partition)
    with pytest.raises(NamedAgainError):
        ground.clean()
    assert rows_of(world, partition) == 2


def test_the_record_of_a_longer_name_is_not_its_own(ground: Ground) -> None:
    world = ground.world
    partition = world.hand_over("pond")
    world.repository("pond2")
    ground.scan()
    assert ground.clean(DAY, **KINDS).status == "done"
    assert (rows_of(world, partition), rows_of(world, ENTRIES)) == (0, 0)
