"""Metaranges that count as active commits although the server shows no commit that names them."""

from datetime import timedelta

import pytest

from dredge.gc.witness.record import Past
from dredge.lakefs.files.ranges import DAMAGED, list_tables, read_kinds
from dredge.lakefs.files.sstable import METARANGES, RANGES
from tests.support.gc import World, deleting, make_world, summary_of
from tests.support.lakes import START
from tests.support.lost_database import back_up, in_hook, restore, unreadable


def expired_table(whole_range: bool) -> tuple[World, str]:
    world = make_world(rules=5)
    for number in range(10):
        world.upload(f"t/{number:03d}", b"v1 %d" % number)
    if not whole_range:
        world.upload("t/5a", b"other")
    world.lake.commit("table t")
    world.age(hours=1)
    for number in range(10):
        world.lake.catalog.objects.delete_object("lake", "main", f"t/{number:03d}")
    dropped = world.lake.commit("table t dropped").id
    world.age(hours=1)
    world.commit("y", b"y")
    world.age(days=8)
    world.commit("z", b"z")
    world.age(days=2)
    world.collect(dry_run=True)
    world.age(hours=23, minutes=55)
    return world, dropped


def revert(world: World, commit: str) -> None:
    world.lake.catalog.merges.revert("lake", "main", commit, committer="ann")


@pytest.mark.parametrize("whole_range", [True, False])
def test_c10_a_revert_behind_a_hook_keeps_what_it_brings_back(whole_range: bool) -> None:
    world, dropped = expired_table(whole_range)

    def nightly_run() -> None:
        world.collect_after(minutes=5)
        world.age(minutes=25)

    in_hook(world, nightly_run)
    revert(world, dropped)
    assert len(world.lake.paths()) >= 12
    assert not unreadable(world)


def test_c10_a_revert_that_begins_after_the_mark_keeps_what_it_brings_back() -> None:
    """The hook takes from before the re-check until after the sweep."""
    world, dropped = expired_table(whole_range=True)
    run = world.marked()

    def swept() -> None:
        world.run(run)

    in_hook(world, swept)
    revert(world, dropped)
    assert summary_of(run, "bulk_delete").details["rechecks"][0]["unnamed_metaranges"] == 1
    assert not unreadable(world)


def lost_commit(days: int = 0) -> tuple[World, set[str]]:
    """A run, a backup, a commit that no run sees, and the backup restored; the addresses of the commit."""
    world = make_world(rules=30)
    for number in range(30):
        world.upload(f"a/{number:03d}", b"old %d" % number)
    world.lake.commit("old")
    world.collect_after(days=2)
    world.age(hours=1)
    backup = back_up(world)
    world.age(hours=6)
    live = {world.upload(f"new/{number:03d}", b"a longer content %d" % number) for number in range(20)}
    world.lake.commit("the day's work")
    world.age(days=days, hours=11)
    restore(world, backup)
    return world, live


def test_c11_a_commit_that_no_run_saw_before_it_was_lost_is_kept() -> None:
    world, live = lost_commit()
    for hours in (6, 24, 24, 24):
        world.age(hours=hours)
        orphan = world.orphan("data/x/orphan", b"%d" % hours)
        world.age(days=2)
        run = world.collected()
        assert orphan not in world.data()
        assert live <= world.data()
    counts = summary_of(run, "list_committed").counts
    assert counts["unnamed_metaranges"] == 1


def test_an_unnamed_metarange_of_a_long_pause_counts_for_its_days_from_the_mark_that_ended_it() -> None:
    world, live = lost_commit(days=60)
    world.collect()
    for keep in (0, 30):
        world.age(days=1)
        world.collect(dry_run=True, keep_unnamed_days=keep)
    for days in (1, 26):
        world.collect_after(days=days)
        assert live <= world.data()
    world.collect_after(days=1)
    assert not live & world.data()


def test_a_branch_made_and_deleted_between_two_marks_is_kept_and_one_that_a_mark_saw_is_not() -> None:
    world = make_world(rules=3)
    world.commit("a", b"1")
    world.age(days=2)
    addresses = {}
    for name, is_seen in (("seen", True), ("unseen", False)):
        world.lake.catalog.branches.create_branch("lake", name, "main")
        addresses[name] = world.commit("side", name.encode(), name)
        if is_seen:
            world.collect()
        world.lake.catalog.branches.delete_branch("lake", name)
    world.collect_after(days=9)
    assert addresses["seen"] not in world.data()
    assert addresses["unseen"] in world.data()


def test_a_shallow_dangling_commit_on_an_old_one_refuses_nothing() -> None:
    world = make_world(rules=3)
    world.upload("a", b"1")
    old = world.lake.commit("first")
    world.age(days=9)
    world.commit("b", b"2")
    world.lake.catalog.branches.create_branch("lake", "side", old.id)
    world.commit("c", b"3", "side")
    world.lake.catalog.branches.delete_branch("lake", "side")
    for _ in range(3):
        world.collect_after(days=2)
        world.assert_readable()


def test_kinds_are_read_from_the_end_of_a_file() -> None:
    world = make_world()
    world.upload("a" * 900, b"1")
    commit = world.lake.commit("first")
    world.lake.objects.put(f"_lakefs/{'0' * 64}", b"nothing of the kind")
    world.lake.objects.put(f"_lakefs/{'1' * 64}", b"")
    kinds = read_kinds(world.lake.objects, list_tables(world.lake.objects).values())
    assert kinds[commit.metarange_id] == METARANGES
    assert sorted(kinds.values()) == sorted([METARANGES, RANGES, DAMAGED, DAMAGED])


def test_a_sweep_that_sees_a_lost_commit_only_in_the_re_check_keeps_it() -> None:
    """Committed and lost after the mark; its objects were candidates since a rule of the old days dropped them."""
    world, dropped = expired_table(whole_range=True)
    run = world.marked()
    backup = back_up(world)
    revert(world, dropped)
    restore(world, backup)
    run = type(run).open(run.plan.run_uri, None, world.client, world.lake.clock)
    before = world.data()
    with deleting() as requests:
        world.run(run)
    assert world.data() == before
    assert not requests.made


def test_the_time_since_which_unnamed_metaranges_count() -> None:
    assert Past().since(START, timedelta(days=3)) == START - timedelta(days=3)
