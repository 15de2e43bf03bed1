"""One try at a time: a try that was overtaken removes nothing more, and takes nothing back that a later one
wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, LeaseHeldError, PartialError, RefusedError
from dredge.runs.lease import Lease
from dredge.storage import open_writer, store_clock
from dredge.trash import apply, deleted, steps
from dredge.trash.margins import TrashLimits, TrashMargins
from dredge.trash.rules import Classification, classify
from dredge.trash.sightings import Sightings
from dredge.trash.state import Right, TrashState
from dredge.trash.steps import CleanReport, ScanReport, clean, restore, scan
from dredge.trash.unqueue import unqueue
from tests.support.kv_world import DAY, START, World

TASK = "kv_trash_cleaner today clean"
"""Every try of a task works under its name."""


class Ground:
    """A store with a live repository, and three staging partitions that nobody names."""

    def __init__(self, folder: Path) -> None:
        self.world = World()
        self.uri = f"file://{folder}/state"
        self.partition, self.main = self.world.repository("lake")
        self.head = next(iter(self.world.kv.scan(self.partition, b"commits/"))).key[8:].decode()
        self.orphans = sorted(self.world.stage(self.world.token("lake", "main")) for _ in range(3))

    @property
    def state(self) -> TrashState:
        """The state folder as another process opens it."""
        return TrashState(open_writer(self.uri))

    def scan(self, after: timedelta = timedelta(0), **options: Any) -> ScanReport:
        self.world.store.now += after
        return scan(
            self.world.store,
            self.state,
            clock=self.world.store.machine_clock,
            margins=TrashMargins(),
            **options,
        )

    def clean(self, after: timedelta = timedelta(0), **options: Any) -> CleanReport:
        self.world.store.now += after
        return clean(
            self.world.store,
            self.state,
            clock=self.world.store.machine_clock,
            margins=TrashMargins(),
            limits=TrashLimits(),
            dry_run=False,
            **options,
        )

    def left(self) -> list[bytes]:
        return [token for token in self.orphans if next(iter(self.world.kv.scan(token)), None)]

    def before_deletion(self, number: int, action: Callable[[], object]) -> None:
        """Do something when the nth deletion is about to be sent; it is late, so it still arrives."""
        store, delete_rows, seen = self.world.store, self.world.store.delete_rows, [0]

        def watched(rows: Any, guards: Any = ()) -> list[bool]:
            seen[0] += 1
            if seen[0] == number:
                action()
            return delete_rows(rows, guards)

        store.delete_rows = watched  # type: ignore[method-assign]

    def before_view(self, number: int, action: Callable[[], object]) -> None:
        store, view, seen = self.world.store, self.world.store.view, [0]

        def watched() -> Any:
            seen[0] += 1
            if seen[0] == number:
                action()
            return view()

        store.view = watched  # type: ignore[method-assign]


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr(apply, "GROUP_ROWS", 2)  # one partition a group
    made = Ground(tmp_path)
    made.scan()
    made.world.store.now += DAY
    return made


def take_over(ground: Ground, holder: str = "somebody else") -> None:
    """Another run takes the lease, as it can when the lease has expired."""
    writer = open_writer(ground.uri)
    later = store_clock(writer, "") + timedelta(hours=1)
    Lease(writer, timedelta(minutes=10), lambda: later).acquire(holder)


def test_a_run_whose_lease_went_to_another_stops_before_its_next_group(ground: Ground) -> None:
    ground.before_deletion(1, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        ground.clean()
    assert len(ground.left()) == 2, "only the request that was under way"
    assert set(ground.state.removed()) == set(ground.orphans) - set(ground.left()), "remembered all the same"


def test_a_run_whose_lease_expired_stops_before_its_next_group(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def an_hour_later(writer: Any, folder: str) -> datetime:
        return store_clock(writer, folder) + timedelta(hours=1)

    ground.before_deletion(1, lambda: monkeypatch.setattr("dredge.trash.state.store_clock", an_hour_later))
    with pytest.raises(LeaseHeldError):
        ground.clean()
    assert len(ground.left()) == 2


def test_a_large_partition_stops_at_the_next_piece(ground: Ground) -> None:
    large = ground.orphans[0]
    ground.world.stage(large.decode(), *(f"p/{number}" for number in range(9)))
    ground.scan()
    ground.before_deletion(2, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        ground.clean(DAY, kinds=["staging-orphan"])
    assert len(list(ground.world.kv.scan(large))) in (7, 11)


def test_a_handed_over_repository_stops_at_the_next_piece(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted, "GROUP_ROWS", 2)
    partition, _ = ground.world.beginning("gone")
    for number in range(4):
        ground.world.tag(partition, f"t{number}", "nowhere")
    ground.world.kv.set(b"graveler_deleted", f"repo/gone/{partition[-20:].decode()}".encode(), b"")
    ground.before_deletion(1, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        ground.clean()
    assert len(list(ground.world.kv.scan(partition))) == 4
    report = json.loads(ground.state.writer.get(f"runs/{ground.state.runs()[0]}/report.json"))
    assert (report["status"], report["rows_removed"]) == ("failed", 2)
    assert len(ground.left()) == 3


def test_unqueueing_stops_when_the_lease_is_lost(ground: Ground) -> None:
    ground.world.queue(ground.main)
    other = ground.world.token("lake", "main")
    ground.world.branch(ground.partition, "main", ground.head, ground.main, sealed=[other])
    ground.world.queue(other)
    ground.before_deletion(1, lambda: take_over(ground))
    with pytest.raises(LeaseHeldError):
        unqueue(ground.world.store, ground.state, clock=ground.world.store.machine_clock, dry_run=False)
    assert len(list(ground.world.kv.scan(b"cleanup-tokens"))) == 1


def test_a_retry_does_not_wait_for_the_lease_of_its_lost_try(ground: Ground) -> None:
    with ground.state.held(TASK):
        assert ground.clean(holder=TASK).status == "done"
    with ground.state.held("another task"), pytest.raises(LeaseHeldError):
        ground.clean(holder=TASK)


def test_an_orphaned_try_that_goes_on_after_its_retry_has_finished_removes_nothing_more(
    ground: Ground,
) -> None:
    """A worker is lost, its task is tried again and ends, a person puts a partition back; then the lost try
    goes on."""
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


def test_an_orphaned_try_does_not_close_the_run_of_its_retry(ground: Ground) -> None:
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


def test_what_an_orphan_removed_is_added_to_what_its_retry_removed(ground: Ground) -> None:
    other = b"lake-main:removed-by-the-retry"

    def meanwhile() -> None:
        with ground.state.held(TASK) as held:
            held.note_removed([other], "retry", ground.world.now)

    ground.before_deletion(1, meanwhile)
    with pytest.raises(LeaseHeldError):
        ground.clean(holder=TASK)
    assert set(ground.state.removed()) == {other, *ground.orphans} - set(ground.left())


@pytest.mark.parametrize("holder", [TASK, "another task, after the lease expired"])
def test_an_orphaned_look_does_not_bring_older_sightings_back(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    """What the later look saw in use must not count as unused since the earlier one."""
    token = ground.orphans[0]
    assert (token, None) in ground.state.sightings()

    def judge_and_stand_still(*asked: Any) -> Classification:
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
    assert (token, None) not in ground.state.sightings()


def test_a_try_that_was_overtaken_writes_nothing_that_tries_share(ground: Ground) -> None:
    """Also where the later try has written nothing yet."""
    with ground.state.held(TASK) as lost:
        take_over(ground)
        before = ground.state.writer.get("sightings.json")
        with pytest.raises(LeaseHeldError):
            lost.save_sightings(Sightings())
        with pytest.raises(LeaseHeldError):
            lost.set_open_run("lost")
    assert ground.state.writer.get("sightings.json") == before
    assert ground.state.open_run() is None


def test_a_try_that_is_overtaken_as_it_writes_does_not_replace_what_the_later_one_wrote(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Right.check

    def check_and_stand_still(right: Right) -> None:
        check(right)
        monkeypatch.setattr(Right, "check", check)
        ground.scan(holder=TASK)

    with ground.state.held(TASK) as lost:
        lost.sightings()
        monkeypatch.setattr(Right, "check", check_and_stand_still)
        with pytest.raises(LeaseHeldError):
            lost.save_sightings(Sightings())
    assert len(ground.state.sightings()) == 3


def test_sightings_that_were_replaced_between_the_two_looks_stop_the_run(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = ground.state.writer.get("sightings.json")
    monkeypatch.setattr(steps, "check_limits", lambda *_: ground.state.writer.put("sightings.json", older))
    ground.world.stage(ground.world.token("lake", "main"))
    with pytest.raises(RefusedError):
        ground.clean()
    assert len(ground.left()) == 3


def test_a_clean_takes_only_the_plan_that_its_scan_reported(ground: Ground) -> None:
    ground.scan()
    plan = ground.scan().plan
    with pytest.raises(RefusedError):
        ground.clean(planned=plan.run_id, planned_digest="another")
    assert len(ground.left()) == 3
    assert ground.clean(planned=plan.run_id, planned_digest=plan.digest).status == "done"
    assert ground.left() == []


def test_a_plan_is_written_once(ground: Ground) -> None:
    plan = ground.scan().plan
    with ground.state.held(TASK) as held, pytest.raises(LeaseHeldError):
        held.save_plan(plan)


def test_missing_rights_after_a_removal_are_no_promise_that_nothing_was_touched(ground: Ground) -> None:
    def denied() -> None:
        raise ConfigError("permission denied for table kv")

    ground.before_deletion(1, denied)
    with pytest.raises(ConfigError):
        ground.clean()
    assert len(ground.left()) == 3
    ground.before_deletion(2, denied)
    with pytest.raises(PartialError, match="2 rows were removed"):
        ground.clean()
    assert len(ground.left()) == 2


def test_a_killed_run_that_removed_keys_of_a_living_repository_does_not_stop_the_next_one(
    ground: Ground,
) -> None:
    ground.world.import_status(ground.partition, START - 9 * DAY)

    def killed() -> None:
        raise KeyboardInterrupt

    ground.before_view(8, killed)  # the last one, after three partitions and the import
    with pytest.raises(KeyboardInterrupt):
        ground.clean()
    assert ground.state.open_run() is not None
    assert ground.clean().status == "done"
