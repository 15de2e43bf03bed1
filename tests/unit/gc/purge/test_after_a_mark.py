"""A purge comes after a complete mark of the same lease, and only what that mark shows as dead goes."""

import pytest

from dredge.errors import AlarmError, DredgeError
from dredge.gc.steps import bulk_delete, verify
from dredge.gc.undo import purge_old
from dredge.undo.deletions import read_deletions
from tests.support.gc import World, stage_again, summary_of
from tests.support.undo import WAYS, purge, undo_world
from tests.support.wrong_runs import (
    REUSES,
    expired_world,
    say_acknowledged,
    state_of,
    undo_store,
)
from tests.unit.gc.purge.test_purge import leftovers


@pytest.mark.parametrize("way", WAYS)
def test_the_last_step_of_a_run_lets_old_leftovers_go(way: str) -> None:
    world, kept, gone = undo_world(way)
    world.collect(purge_days=10)
    world.age(days=8)
    world.collect(purge_days=10)
    assert leftovers(world) == gone
    world.age(days=8)
    dry = world.collected(purge_days=10, dry_run=True)
    assert summary_of(dry, "purge").counts["would_go_objects"] == len(gone)
    assert leftovers(world) == gone
    run = world.plan(purge_days=10)
    report = world.run(run)
    assert report.details["outcome"] == "success"
    assert summary_of(run, "purge").counts["purged_objects"] == len(gone)
    assert not leftovers(world)
    assert world.data() == kept
    (deletion,) = read_deletions(state_of(world)).found
    assert deletion.purged_at is not None


def test_runs_purge_nothing_where_nobody_asks_for_it() -> None:
    world, _, gone = undo_world("quarantine")
    world.collect()
    world.age(days=80)
    run = world.collected()
    assert run.folder.read_summary("purge") is None
    assert leftovers(world) == gone


@pytest.mark.parametrize("reuse", REUSES)
def test_what_is_live_again_stays_although_it_was_not_brought_back(reuse: str) -> None:
    world, commit, gone = expired_world(restore_reused=False)
    world.age(days=5)
    REUSES[reuse](world, commit)
    run = world.collected(purge_days=1)
    assert summary_of(run, "purge").counts["live_objects"] == len(gone)
    assert leftovers(world) >= gone


def test_what_comes_alive_between_the_mark_and_the_purge_stays() -> None:
    world, commit, gone = expired_world(restore_reused=False)
    world.age(days=5)
    run = world.marked(purge_days=1)
    bulk_delete(run, world.runner)
    verify(run, world.runner)
    REUSES["branch"](world, commit)
    assert purge_old(run, world.runner).counts["live_objects"] == len(gone)
    assert leftovers(world) >= gone


def test_a_copy_that_a_branch_may_serve_unseen_stays() -> None:
    world = undo_store("quarantine")
    world.rules(30)
    world.commit("a", b"the same bytes")
    orphan = world.orphan("data/s/orphan", b"as long bytes!")
    world.collect_after(days=2)
    assert orphan not in world.data()
    world.age(days=5)
    world.upload("b", b"other bytes..!")  # a head entry of its size
    world.lake.commit()
    world.age(days=2)
    run = world.collected(purge_days=1, safety={"identical_suspects_max": 0})
    assert summary_of(run, "purge").counts["unproved_objects"] == 1
    assert orphan in leftovers(world)
    later = world.collected(purge_days=1)
    assert summary_of(later, "purge").counts["purged_objects"] == 1


@pytest.mark.parametrize("by_hand", [True, False])
def test_nothing_is_purged_while_an_alarm_is_open(by_hand: bool) -> None:
    world = undo_store("quarantine")
    world.commit("a", b"a")
    orphans = [world.orphan(f"data/s/{number}") for number in range(2)]
    world.collect_after(days=2)
    world.age(days=40)
    stage_again(world, orphans[0], "again")
    with pytest.raises(AlarmError):
        _purge(world, by_hand)
    with pytest.raises(AlarmError):
        _purge(world, by_hand)
    assert orphans[1] in leftovers(world)
    say_acknowledged(world)
    _purge(world, by_hand)
    assert orphans[1] not in leftovers(world)
    assert orphans[0] in world.data()


def _purge(world: World, by_hand: bool) -> None:
    if by_hand:
        purge(world, older_than_days=1)
    else:
        world.collect(purge_days=1)


def test_a_purge_by_hand_whose_mark_fails_purges_nothing() -> None:
    world, _, gone = undo_world("quarantine")
    world.collect()
    world.age(days=40)

    def fail() -> None:
        raise DredgeError("the server is gone")

    with world.during("branches", fail, times=100), pytest.raises(DredgeError):
        purge(world)
    assert leftovers(world) == gone
