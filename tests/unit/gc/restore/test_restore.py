"""What a run deleted comes back byte for byte, nothing that is there is replaced, and what came back stays."""

from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError, LeaseHeldError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.config import REASONS, RestoreConfig
from dredge.gc.steps import bulk_delete, release_lease
from dredge.gc.subtract import REASONS as CANDIDATE_REASONS
from dredge.hashing import hash64
from dredge.undo.pins import read_pins
from tests.support.gc import busy_world, summary_of
from tests.support.memory_store import MemoryWriter
from tests.support.memory_versions import OlderVersions
from tests.support.undo import (
    WAYS,
    Moment,
    data_bytes,
    moments,
    pin_down,
    purge,
    restore,
    small_world,
    store_of,
    undo_world,
)
from tests.support.wrong_runs import state_of
from tests.unit.gc.purge.test_purge import leftovers


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
    assert sum(part.rows for part in done.parts) == len(gone), "its own ledger"
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
    with pytest.raises(NotFoundError, match=f"Of {len(gone)} objects"):
        restore(world, run, all=True)
    assert world.data() == kept


@pytest.mark.parametrize("way", WAYS)
def test_only_what_was_chosen_comes_back(way: str) -> None:
    world, kept, gone = undo_world(way)
    run = world.collected()
    some = {key for key in gone if key.startswith("data/slice0/")}
    restore(world, run, prefix="data/slice0/")
    assert world.data() == kept | some
    one = min(gone - some)
    restore(world, run, address=one)
    assert world.data() == kept | some | {one}
    with pytest.raises(ConfigError):
        restore(world, run, reason="expired")
    restore(world, run, reason="unreferenced", prefix="data/slice1/")
    assert world.data() == kept | gone


@pytest.mark.parametrize("way", WAYS)
def test_a_restore_never_replaces_what_is_there(way: str) -> None:
    world, _, gone = undo_world(way)
    run = world.collected()
    taken = min(gone)
    world.orphan(taken, b"somebody else's")
    done = restore(world, run, all=True)
    assert done.counts["taken_objects"] == 1
    assert done.counts["restored_objects"] == len(gone) - 1
    assert data_bytes(world)[taken] == b"somebody else's"


def test_what_is_put_under_the_key_between_look_and_copy_stays(stand_in: Any) -> None:
    world, _, gone = undo_world("quarantine")
    run = world.collected()
    taken = min(gone)

    def late(honest: Any, writer: object, key: str, *more: Any, **named: Any) -> object:
        if key == taken:
            world.orphan(taken, b"somebody else's")
        return honest(writer, key, *more, **named)

    stand_in(MemoryWriter.put_stream, late)
    done = restore(world, run, all=True)
    assert done.counts["taken_objects"] == 1
    assert data_bytes(world)[taken] == b"somebody else's"


def test_another_object_that_was_deleted_since_is_not_brought_back_in_its_place() -> None:
    world, kept, gone = undo_world("versions")
    run = world.collected()
    taken = min(gone)
    world.orphan(taken, b"somebody else's")
    store = store_of(world)
    with store.lock:
        store.remove(next(key for key in store.objects if key.endswith(taken)))
    with pytest.raises(NotFoundError, match="another object"):
        restore(world, run, address=taken)
    assert world.data() == kept


def test_an_object_with_two_markers_comes_back() -> None:
    """A request to delete that is sent again after a lost answer leaves a second marker."""
    world, kept, gone = undo_world("versions")
    run = world.collected()
    one = min(gone)
    store = store_of(world)
    store.remove(next(key for key in (store.older or OlderVersions()).by_key if key.endswith(one)))
    assert restore(world, run, address=one).counts["restored_objects"] == 1
    assert world.data() == kept | {one}


@pytest.mark.parametrize("way", WAYS)
def test_what_came_back_is_kept_from_the_next_runs_until_the_end_of_its_pin(way: str) -> None:
    world, kept, _ = undo_world(way)
    run = world.collected()
    restore(world, run, prefix="data/slice0/", keep_days=10, because="needed by an audit")
    back = world.data() - kept
    world.age(days=5)
    for mode in ("clean", "optimized", "clean"):
        later = world.collected(mode=mode)
        assert world.data() == kept | back, mode
        world.age(days=1)
    assert summary_of(later, "check_limits").counts["pinned_objects"] == len(back)
    assert "audit" in str(later.folder.read_json("report.json")["facts"])
    world.collect_after(days=3)
    assert world.data() == kept


@pytest.mark.parametrize("way", WAYS)
def test_a_pin_holds_what_an_optimized_run_carries_and_ends_there_too(way: str) -> None:
    world, kept, gone = undo_world(way)
    run = world.collected()
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


def test_a_sweep_whose_mark_is_older_than_a_pin_keeps_what_the_pin_holds() -> None:
    """The lease keeps the two apart; a sweep that was lost and goes on must not rest on that."""
    world, kept, gone = busy_world()
    run = world.marked()
    pinned = sorted(gone)[:3]
    pin_down(run.state, pinned, world.lake.clock())
    bulk_delete(run, world.runner)
    assert world.data() == kept | set(pinned)
    groups = BulkDeleteOutput.of(summary_of(run, "bulk_delete")).groups
    assert [group.objects for group in groups if group.code == "pinned"] == [3]


def test_a_pin_that_cannot_be_read_stops_the_run() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.collected()
    restore(world, run, all=True)
    (pin,) = read_pins(run.state)
    run.state.put(f"pins/{pin.pin_id}.json", b"{}")
    world.age(days=2)
    with pytest.raises(FormatError, match=pin.pin_id):
        world.collect()
    assert world.data() == kept | gone


def test_a_restore_works_on_no_run_that_is_at_work_and_makes_no_folder_where_none_is() -> None:
    world, _, _ = undo_world("quarantine")
    run = world.plan()
    with pytest.raises(LeaseHeldError):
        restore(world, run, all=True)
    world.run(run)
    dry = world.collected(dry_run=True)
    with pytest.raises(ConfigError, match=dry.plan.run_id):
        restore(world, dry, all=True)
    keys = set(world.lake.keys("_lakefs/retention/gc/unified/"))
    with pytest.raises(ConfigError, match="nothing"):
        restore(world, None, run="nothing", all=True)
    assert set(world.lake.keys("_lakefs/retention/gc/unified/")) == keys


def test_a_run_of_another_repository_gives_nothing_back() -> None:
    """Its name may be the same: of another server, or of an earlier life."""
    other, _, _ = undo_world("quarantine")
    run = other.collected()
    world, kept, gone = undo_world("quarantine")
    with pytest.raises(ConfigError, match=run.plan.run_id):
        restore(world, None, run=run.plan.run_uri, all=True)
    assert world.data() == kept | gone


def test_a_restore_knows_every_reason() -> None:
    assert tuple(CANDIDATE_REASONS) == REASONS


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "no selection"),
        ({"all": True, "prefix": "data/"}, "exclude each other"),
        ({"reason": "x"}, "reason"),
    ],
)
def test_a_restore_must_be_told_what(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RestoreConfig.from_params({"repository": "lake", "run": "x", **asked})


@pytest.mark.parametrize("way", WAYS)
def test_a_restore_that_is_killed_anywhere_is_done_again_and_ends_the_same(way: str) -> None:
    world, _, gone = small_world(way)
    before = data_bytes(world)
    run = world.collected()
    store = store_of(world)
    with moments(store) as states:
        restore(world, run, all=True)
    assert len(states) > len(gone)
    for number, state in enumerate(states):
        state.put_back(store)
        restore(world, run, all=True)
        assert data_bytes(world) == before, f"killed at write {number}"
        # What came back before the kill was pinned before.
        assert any(pin.objects == len(gone) for pin in read_pins(run.state))


@pytest.mark.parametrize("way", WAYS)
def test_whatever_came_back_when_a_restore_is_killed_is_pinned(way: str) -> None:
    world, kept, gone = small_world(way)
    run = world.collected()
    store = store_of(world)
    with moments(store) as states:
        restore(world, run, all=True)
    for number, state in enumerate(states):
        state.put_back(store)
        back = world.data() - kept
        if back:
            (pin,) = read_pins(run.state)
            assert all(pin.has(int(hash64(pa.array([key]))[0])) for key in back), f"killed at write {number}"
    assert back == gone


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_that_is_killed_anywhere_can_be_taken_back_at_once(way: str) -> None:
    """Also when nobody does the rest of it, and when the kill came between a deletion and its row in the ledger."""
    world, _, _ = small_world(way)
    before = data_bytes(world)
    run = world.marked()
    store = store_of(world)
    with moments(store) as states:
        bulk_delete(run, world.runner)
    assert len(states) > 10
    release_lease(run)
    swept = Moment.of(store)
    lease = store.objects[next(key for key in store.objects if key.endswith("dredge/lease.json"))]
    for number, state in enumerate(states):
        state.put_back(store)
        store.objects[next(key for key in store.objects if key.endswith("dredge/lease.json"))] = lease
        restore(world, run, all=True)
        assert data_bytes(world) == before, f"killed at write {number}"
    swept.put_back(store)


# A restore after a purge says that nothing is left, and pins nothing that is not there.


def test_what_came_back_is_pinned_and_what_is_gone_is_not() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.collected()
    one = min(gone)
    (copy,) = (key for key in world.lake.keys("_lakefs/") if key.endswith(f"/quarantine/{one}"))
    store = store_of(world)
    del store.objects[f"{world.lake.namespace.removeprefix('memory://').partition('/')[2]}/{copy}"]
    done = restore(world, run, all=True)
    assert done.counts["gone_objects"] == 1
    assert world.data() == kept | gone - {one}
    (pin,) = read_pins(state_of(world))
    assert pin.objects == len(gone) - 1
    held = {address for address in gone if pin.has(_hash(address))}
    assert held == gone - {one}


def _hash(address: str) -> int:
    import pyarrow as pa

    from dredge.hashing import hash64

    return int(hash64(pa.array([address]))[0])


def test_a_purge_that_comes_too_early_says_from_when_on() -> None:
    world, _, gone = undo_world("quarantine")
    world.collect()
    done = purge(world, older_than_days=3)
    assert done.counts["purged_objects"] == 0
    assert any("from 2026-" in text for text in done.warnings)
    assert leftovers(world) == gone
