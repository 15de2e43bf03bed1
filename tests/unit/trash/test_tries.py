"""One try at a time: a try that was overtaken removes nothing more, and takes nothing back that a later one
wrote."""

from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError, LeaseHeldError, PartialError, RefusedError
from dredge.kv.rows import name_of
from dredge.runs.lease import Lease
from dredge.runs.pending.store import POINTER
from dredge.storage import store_clock
from dredge.trash import steps
from dredge.trash.findings import TrashFinding
from dredge.trash.restore import restore, unqueue
from dredge.trash.rules import classify
from dredge.trash.state import Right, TrashState
from dredge.trash.steps import CleanReport
from dredge.trash.waiting import read_waiting, write_waiting
from tests.support.kv_world import DAY, START
from tests.support.trash import Ground

TASK = "kv_trash_cleaner today clean"
"""Every try of a task works under its name."""


class Tries(Ground):
    """With three staging partitions that nobody names, of which one goes at a time."""

    def __init__(self, state: TrashState) -> None:
        super().__init__(state)
        tokens = (self.world.token("lake", "main") for _ in range(2))
        self.orphans = sorted([self.orphan, *(self.world.stage(token) for token in tokens)])

    def left(self) -> list[bytes]:
        return [token for token in self.orphans if next(iter(self.world.kv.scan(token)), None)]

    def clean(self, after: timedelta = timedelta(0), **options: Any) -> CleanReport:
        return super().clean(after, group_rows=2, **options)


@pytest.fixture
def ground(state: TrashState) -> Tries:
    made = Tries(state)
    made.scan()
    made.world.store.now += DAY
    return made


def take_over(ground: Tries, holder: str = "somebody else") -> None:
    """Another run takes the lease, as it can when the lease has expired."""
    writer = ground.state.writer
    later = store_clock(writer, "") + timedelta(hours=1)
    Lease(writer, timedelta(minutes=10), lambda: later).acquire(holder)


def test_a_run_whose_lease_went_to_another_stops_before_its_next_group(ground: Tries) -> None:
    ground.before_deletion(1, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        ground.clean()
    assert len(ground.left()) == 2, "only the request that was under way"
    assert set(ground.state.removed()) == set(ground.orphans) - set(ground.left()), "remembered all the same"


def test_a_large_partition_stops_at_the_next_piece(ground: Tries) -> None:
    large = ground.orphans[0]
    ground.world.stage(large.decode(), *(f"p/{number}" for number in range(9)))
    ground.scan()
    ground.before_deletion(2, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        ground.clean(DAY, kinds=["staging-orphan"])
    assert len(list(ground.world.kv.scan(large))) in (7, 11)


def test_a_handed_over_repository_stops_at_the_next_piece(ground: Tries) -> None:
    partition = ground.world.hand_over("gone")
    for number in range(4):
        ground.world.tag(partition, f"t{number}", "nowhere")
    ground.scan()
    ground.before_deletion(1, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        ground.clean(DAY, kinds=["deleted-repository"])
    assert len(list(ground.world.kv.scan(partition))) == 4
    assert ground.report()["status"] == "failed"
    assert partition in ground.state.removed()
    assert len(ground.left()) == 3


def test_unqueueing_stops_when_the_lease_is_lost(ground: Tries) -> None:
    ground.world.queue(ground.main)
    other = ground.world.token("lake", "main")
    ground.world.branch(ground.partition, "main", ground.head, ground.main, sealed=[other])
    ground.world.queue(other)
    ground.before_deletion(1, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        unqueue(ground.world.store, ground.state, clock=ground.world.store.machine_clock, dry_run=False)
    assert len(list(ground.world.kv.scan(b"cleanup-tokens"))) == 1


def test_an_orphaned_try_that_goes_on_after_its_retry_has_finished_removes_nothing_more(
    ground: Tries,
) -> None:
    back = []

    def meanwhile() -> None:
        done = ground.clean(holder=TASK)
        assert done.status == "done"
        assert ground.left() == []
        restore(ground.world.store, ground.state, done.scan.plan.run_id, dry_run=False)
        back.extend(ground.left())

    ground.before_deletion(1, meanwhile)
    with pytest.raises(LeaseHeldError):
        ground.clean(holder=TASK)
    assert len(back) == 3
    assert len(ground.left()) == 2, "only the request that was under way when the worker was lost"
    assert ground.state.open_run() is None, "the retry has ended, and nobody opened its run again"


def test_an_orphaned_try_does_not_close_the_run_of_its_retry(ground: Tries) -> None:
    runs = []

    def meanwhile() -> None:
        with ground.state.held(TASK) as held:
            held.set_open_run("retry")
        runs.append(ground.state.open_run())

    ground.before_deletion(3, meanwhile)
    with pytest.raises(LeaseHeldError):
        ground.clean(holder=TASK)
    assert runs == ["retry"]
    assert ground.state.open_run() == "retry"


def test_what_an_orphan_removed_is_added_to_what_its_retry_removed(ground: Tries) -> None:
    other = b"lake-main:removed-by-the-retry"

    def meanwhile() -> None:
        with ground.state.held(TASK) as held:
            held.note_removed([other], "retry", ground.world.now)

    ground.before_deletion(1, meanwhile)
    with pytest.raises(LeaseHeldError):
        ground.clean(holder=TASK)
    assert set(ground.state.removed()) == {other, *ground.orphans} - set(ground.left())


@pytest.mark.parametrize("holder", [TASK, "another task, after the lease expired"])
def test_an_orphaned_look_does_not_bring_an_older_list_back(
    ground: Tries, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    token = ground.orphans[0]
    assert token in waiting(ground)

    def judge_and_stand_still(*asked: Any) -> tuple[TrashFinding, ...]:
        found = classify(*asked)
        monkeypatch.setattr(steps, "classify", classify)
        if holder != TASK:
            take_over(ground, TASK)
        ground.world.branch(ground.partition, "main", ground.head, token.decode(), sealed=[ground.main])
        ground.scan(holder=TASK)
        return found

    monkeypatch.setattr(steps, "classify", judge_and_stand_still)
    with pytest.raises(LeaseHeldError):
        ground.scan(holder=holder)
    assert token not in waiting(ground)


def test_a_try_that_was_overtaken_writes_nothing_that_tries_share(ground: Tries) -> None:
    with ground.state.held(TASK) as lost:
        read = read_waiting(lost, ground.world.store)
        take_over(ground)
        before = ground.state.writer.get(POINTER)
        with pytest.raises(LeaseHeldError):
            write_waiting(lost, read, "lost", START)
        with pytest.raises(LeaseHeldError):
            lost.set_open_run("lost")
    assert ground.state.writer.get(POINTER) == before
    assert ground.state.open_run() is None


def test_a_try_that_is_overtaken_as_it_writes_does_not_replace_what_the_later_one_wrote(
    ground: Tries, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Right.check

    def check_and_stand_still(right: Right) -> None:
        check(right)
        monkeypatch.setattr(Right, "check", check)
        ground.scan(holder=TASK)

    with ground.state.held(TASK) as lost:
        read = read_waiting(lost, ground.world.store)
        read.rows = read.rows.slice(0, 0)
        monkeypatch.setattr(Right, "check", check_and_stand_still)
        with pytest.raises(LeaseHeldError):
            write_waiting(lost, read, "lost", START)
    assert len(waiting(ground)) == 3


def waiting(ground: Tries) -> list[bytes]:
    rows = read_waiting(ground.state, ground.world.store).rows
    return [name_of(address) for address in rows["address"].to_pylist()]


def test_a_clean_takes_only_the_plan_that_its_scan_reported(ground: Tries) -> None:
    ground.scan()
    plan = ground.scan().plan
    with pytest.raises(RefusedError):
        ground.clean(planned=plan.run_id, planned_digest="another")
    assert len(ground.left()) == 3
    assert ground.clean(planned=plan.run_id, planned_digest=plan.digest).status == "done"
    assert ground.left() == []


def test_missing_rights_after_a_removal_are_no_promise_that_nothing_was_touched(ground: Tries) -> None:
    def denied() -> None:
        raise ConfigError("permission denied for table kv")

    ground.before_deletion(1, denied)
    with pytest.raises(ConfigError):
        ground.clean()
    assert len(ground.left()) == 3
    ground.before_deletion(2, denied)
    with pytest.raises(PartialError):
        ground.clean()
    assert len(ground.left()) == 2


def test_a_killed_run_that_removed_keys_of_a_living_repository_does_not_stop_the_next_one(
    ground: Tries,
) -> None:
    ground.world.import_status(ground.partition, START - 9 * DAY)
    ground.scan()
    ground.world.store.now += DAY

    def killed() -> None:
        raise KeyboardInterrupt

    ground.before_view(8, killed)  # the last one, after three partitions and the import
    with pytest.raises(KeyboardInterrupt):
        ground.clean()
    assert ground.state.open_run() is not None
    assert ground.clean().status == "done"
