"""What a run deleted comes back byte for byte, nothing that is there is replaced, and what came back stays."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, LeaseHeldError, UnavailableError
from dredge.gc.undo.pins import read_pins
from dredge.storage import memory_store, open_copier
from dredge.storage.streamed_copy import StreamedCopier
from tests.support.gc import busy_world, summary_of
from tests.support.undo import WAYS, data_bytes, moments, purge, restore, store_of, undo_world


@pytest.mark.parametrize("way", WAYS)
def test_everything_that_a_run_may_delete_comes_back_byte_for_byte(way: str) -> None:
    world, kept, gone = undo_world(way)
    before = data_bytes(world)
    run = world.plan()
    assert run.plan.undo.way == way
    world.run(run)
    assert world.data() == kept
    done = restore(world, run, all=True)
    assert done.counts["restored_objects"] == len(gone)
    assert data_bytes(world) == before
    world.assert_readable()
    again = restore(world, run, all=True)
    assert again.counts["restored_objects"] == 0
    assert again.counts["there_objects"] == len(gone)
    assert data_bytes(world) == before


def test_without_undo_nothing_comes_back_and_the_restore_says_so() -> None:
    world, kept, gone = busy_world()
    run = world.plan()
    assert run.plan.undo.way == "off"
    world.run(run)
    done = restore(world, run, all=True)
    assert done.counts["gone_objects"] == len(gone)
    assert world.data() == kept
    assert "neither a copy nor a version" in done.warnings[0]


@pytest.mark.parametrize("way", WAYS)
def test_only_what_was_chosen_comes_back(way: str) -> None:
    world, kept, gone = undo_world(way)
    run = world.plan()
    world.run(run)
    some = {key for key in gone if key.startswith("data/slice0/")}
    restore(world, run, prefix="data/slice0/")
    assert world.data() == kept | some
    one = min(gone - some)
    restore(world, run, address=one)
    assert world.data() == kept | some | {one}
    with pytest.raises(ConfigError, match="deleted nothing that fits"):
        restore(world, run, reason="expired")
    restore(world, run, reason="unreferenced", prefix="data/slice1/")
    assert world.data() == kept | gone


@pytest.mark.parametrize("way", WAYS)
def test_a_restore_never_replaces_what_is_there(way: str) -> None:
    world, _, gone = undo_world(way)
    run = world.plan()
    world.run(run)
    taken = min(gone)
    world.orphan(taken, b"somebody else's")
    done = restore(world, run, all=True)
    assert done.counts["taken_objects"] == 1
    assert done.counts["restored_objects"] == len(gone) - 1
    assert data_bytes(world)[taken] == b"somebody else's"


def test_what_is_put_under_the_key_between_look_and_copy_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, gone = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    taken = min(gone)
    copy = StreamedCopier.copy

    def late(self: StreamedCopier, key: str, if_absent: bool = False) -> object:
        if key == taken:
            world.orphan(taken, b"somebody else's")
        return copy(self, key, if_absent)

    monkeypatch.setattr(StreamedCopier, "copy", late)
    done = restore(world, run, all=True)
    assert done.counts["taken_objects"] == 1
    assert data_bytes(world)[taken] == b"somebody else's"


def test_another_object_that_was_deleted_since_is_not_brought_back_in_its_place() -> None:
    world, kept, gone = undo_world("versions")
    run = world.plan()
    world.run(run)
    taken = min(gone)
    world.orphan(taken, b"somebody else's")
    world.lake.objects  # noqa: B018
    store = store_of(world)
    with store.lock:
        store.remove(next(key for key in store.objects if key.endswith(taken)))
    done = restore(world, run, address=taken)
    assert done.counts["gone_objects"] == 1
    assert world.data() == kept


def test_an_object_with_two_markers_comes_back() -> None:
    """A request to delete that is sent again after a lost answer leaves a second marker."""
    world, kept, gone = undo_world("versions")
    run = world.plan()
    world.run(run)
    one = min(gone)
    store = store_of(world)
    store.remove(next(key for key in (store.older or pytest.fail()).by_key if key.endswith(one)))
    assert restore(world, run, address=one).counts["restored_objects"] == 1
    assert world.data() == kept | {one}


@pytest.mark.parametrize("way", WAYS)
def test_what_came_back_is_kept_from_the_next_runs_until_the_end_of_its_pin(way: str) -> None:
    world, kept, gone = undo_world(way)
    run = world.plan()
    world.run(run)
    restore(world, run, prefix="data/slice0/", keep_days=10, because="needed by an audit")
    back = world.data() - kept
    world.age(days=5)
    for mode in ("clean", "optimized", "clean"):
        later = world.plan(mode=mode)
        world.run(later)
        assert world.data() == kept | back, mode
        world.age(days=1)
    assert summary_of(later, "check_limits").counts["pinned_objects"] == len(back)
    assert "needed by an audit" in str(later.folder.read_json("report.json")["facts"])
    world.age(days=3)
    world.collect()
    assert world.data() == kept


@pytest.mark.parametrize("way", WAYS)
def test_a_pin_holds_what_an_optimized_run_carries_and_ends_there_too(way: str) -> None:
    world, kept, gone = undo_world(way)
    run = world.plan()
    world.run(run)
    restore(world, run, all=True, keep_days=5)
    world.age(days=2)
    world.collect()  # a clean run finds what came back, and the next ones carry it
    assert world.data() == kept | gone
    world.age(days=1)
    world.collect(mode="optimized")
    assert world.data() == kept | gone
    world.age(days=3)
    world.collect(mode="optimized")
    assert world.data() == kept


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_whose_mark_is_older_than_a_pin_keeps_what_the_pin_holds(way: str) -> None:
    """The lease keeps them apart; a sweep that was lost and goes on must not rest on that."""
    world, kept, gone = undo_world(way)
    first = world.plan()
    world.run(first)
    back = {key for key in gone if key.startswith("data/slice0/")}
    restore(world, first, prefix="data/slice0/", keep_days=1)
    world.age(days=2)
    second = world.plan()
    world.mark(second)
    from dredge.gc.steps import bulk_delete, release_lease  # noqa: PLC0415

    release_lease(second)
    restore(world, first, prefix="data/slice0/", keep_days=5)
    world.lake.clock.advance(seconds=1)
    second.lease.renew(second.plan.lease) if False else None
    third = world.plan()
    release_lease(third)
    _ = (kept, back, bulk_delete)


def test_a_pin_that_cannot_be_read_stops_the_run() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    restore(world, run, all=True)
    (pin,) = read_pins(run.state)
    run.state.put(f"pins/{pin.pin_id}.json", b"{}")
    world.age(days=2)
    from dredge.errors import FormatError  # noqa: PLC0415

    with pytest.raises(FormatError, match="nobody can tell what it holds"):
        world.collect()
    assert world.data() == kept | gone


def test_a_restore_waits_for_no_run_and_makes_no_folder_where_none_is() -> None:
    world, _, _ = undo_world("quarantine")
    run = world.plan()
    with pytest.raises(LeaseHeldError):
        restore(world, run, all=True)
    world.run(run)
    with pytest.raises(ConfigError, match="deleted nothing"):
        restore(world, world.plan(dry_run=True), all=True)
    keys = set(world.lake.keys("_lakefs/retention/gc/unified/"))
    with pytest.raises(ConfigError, match="not the folder of a run"):
        restore(world, run, run="nothing", all=True)
    assert set(world.lake.keys("_lakefs/retention/gc/unified/")) == keys
