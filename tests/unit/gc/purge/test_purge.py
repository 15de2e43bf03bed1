"""A purge lets go only what a run's own ledger names, what is old enough, and what nobody brought back."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dredge.errors import ConfigError, LeaseHeldError, RefusedError, UnavailableError
from dredge.gc import undo as purging
from dredge.gc.config import PurgeConfig
from dredge.gc.steps import bulk_delete, release_lease
from dredge.storage import DeleteOutcome, ObjectVersion, open_old_version_deleter, open_versions
from dredge.storage.model import MaySend, always
from dredge.undo.leftovers import Choosing, Leftover
from tests.support import lost_database
from tests.support.gc import World
from tests.support.memory_store import MemoryVersionDeleter
from tests.support.undo import (
    WAYS,
    data_bytes,
    moments_in,
    purge,
    restore,
    small_world,
    store_of,
    undo_world,
)

RUNS = "_lakefs/retention/gc/unified/"


def leftovers(world: World) -> set[str]:
    """Addresses of which a copy or an old version is left."""
    root = world.lake.namespace.removeprefix("memory://").partition("/")[2] + "/"
    copies = {key.partition("/quarantine/")[2] for key in world.lake.keys(RUNS) if "/quarantine/" in key}
    older = store_of(world).older
    found = {} if older is None else older.by_key
    versions = {
        key.removeprefix(root) for key, items in found.items() if any(item.data is not None for item in items)
    }
    return {key for key in copies | versions if key.startswith("data/")}


@pytest.mark.parametrize("way", WAYS)
def test_a_purge_lets_old_leftovers_go_and_nothing_else(way: str) -> None:
    world, kept, gone = undo_world(way)
    world.run(world.plan())
    assert leftovers(world) == gone
    world.age(days=20)
    later = {world.orphan(f"data/later/{number}", b"later") for number in range(3)}
    world.age(days=2)
    world.run(world.plan())
    world.age(days=10)
    before = data_bytes(world)
    done = purge(world, older_than_days=30)
    assert done.counts["purged_objects"] == len(gone)
    assert leftovers(world) == later
    assert data_bytes(world) == before
    assert world.data() == kept
    assert purge(world, older_than_days=30).counts["purged_objects"] == 0


@pytest.mark.parametrize(("days", "goes"), [(29, False), (31, True)])
def test_leftovers_stay_for_thirty_days_where_nobody_says_how_long(days: float, goes: bool) -> None:
    world, _, gone = undo_world("quarantine")
    world.run(world.plan())
    world.age(days=days)
    purge(world)
    assert leftovers(world) == (set() if goes else gone)


@pytest.mark.parametrize("way", WAYS)
def test_a_dry_run_is_the_default_says_what_would_go_and_lets_nothing_go(way: str) -> None:
    assert PurgeConfig(repository="lake").dry_run
    world, _, gone = undo_world(way)
    world.run(world.plan())
    world.age(days=40)
    done = purge(world, dry_run=True)
    assert done.status == "dry_run"
    assert done.counts["would_go_objects"] == len(gone)
    assert done.counts["would_go_bytes"] == 2 * len(gone)
    assert leftovers(world) == gone


@pytest.mark.parametrize("way", WAYS)
def test_what_is_pinned_stays_as_long_as_its_pin(way: str) -> None:
    world, kept, gone = undo_world(way)
    run = world.collected()
    restore(world, run, prefix="data/slice0/", keep_days=50)
    back = world.data() - kept
    world.age(days=40)
    done = purge(world)
    assert done.counts["pinned_objects"] == len(back)
    assert done.counts["purged_objects"] == len(gone) - len(back)
    assert back <= world.data()
    if way == "quarantine":
        assert leftovers(world) == back
    world.age(days=20)
    purge(world)
    assert back <= world.data()
    assert leftovers(world) == set()


def test_a_version_that_is_the_current_one_again_stays_whoever_brought_it_back() -> None:
    world, kept, gone = undo_world("versions")
    world.run(world.plan())
    store = store_of(world)
    assert store.older is not None
    one = min(gone)
    name = next(key for key in store.older.by_key if key.endswith(one))
    (marker, _) = store.older.by_key[name]
    store.older.delete(name, marker.version_id)
    revived = store.older.revived(name)
    assert revived is not None
    assert revived.data is not None
    store.objects[name] = (revived.data, revived.last_modified)
    world.age(days=40)
    done = purge(world)
    assert done.counts["current_objects"] == 1
    assert done.counts["purged_objects"] == len(gone) - 1
    assert world.data() == kept | {one}


def test_a_version_of_another_object_stays() -> None:
    world, _, gone = undo_world("versions")
    world.run(world.plan())
    store = store_of(world)
    assert store.older is not None
    name = next(key for key in store.older.by_key if key.endswith(min(gone)))
    marker, version = store.older.by_key[name]
    changed = type(version)(version.version_id, b"zz", version.last_modified)
    store.older.by_key[name] = [marker, changed]
    world.age(days=40)
    done = purge(world)
    assert done.counts["other_objects"] == 1
    assert store.older.by_key[name] == [marker, changed]


def test_a_marker_above_an_older_version_stays_so_that_nothing_comes_back() -> None:
    world, kept, gone = undo_world("versions")
    world.run(world.plan())
    store = store_of(world)
    assert store.older is not None
    name = next(key for key in store.older.by_key if key.endswith(min(gone)))
    marker, version = store.older.by_key[name]
    oldest = type(version)("older", b"what was there before", version.last_modified)
    store.older.by_key[name] = [marker, version, oldest]
    world.age(days=40)
    assert purge(world).counts["purged_objects"] == len(gone)
    assert store.older.by_key[name] == [marker, oldest]
    assert world.data() == kept


def test_the_deleter_of_old_versions_refuses_a_current_one() -> None:
    world, kept, _ = undo_world("versions")
    key = min(kept)
    (current,) = open_versions(world.lake.namespace).versions(key)
    assert isinstance(current, ObjectVersion)
    with pytest.raises(RefusedError, match=key):
        open_old_version_deleter(world.lake.namespace).delete([(key, current)])
    assert kept <= world.data()


def test_a_copy_that_the_ledger_does_not_name_stays() -> None:
    world, _, gone = undo_world("quarantine")
    run = world.collected()
    run.folder.writer.put("quarantine/data/strange", b"x")
    world.age(days=40)
    assert purge(world).counts["purged_objects"] == len(gone)
    assert leftovers(world) == {"data/strange"}


def test_a_copy_of_what_the_ledger_does_not_call_deleted_stays() -> None:
    """A sweep that was killed after it copied has deleted nothing of it, or not written it down."""
    world, kept, gone = undo_world("quarantine")
    run = world.marked()
    for key in gone:
        run.folder.writer.put(f"quarantine/{key}", data_bytes(world)[key])
    release_lease(run)
    world.age(days=40)
    assert purge(world).counts["purged_objects"] == 0
    assert leftovers(world) == gone
    assert world.data() == kept | gone


@pytest.mark.parametrize("way", WAYS)
def test_leftovers_that_came_late_in_an_old_run_stay(way: str) -> None:
    """A run that waited, or went on after a failure, may have begun long before it deleted."""
    world, _, gone = undo_world(way, safety={"mark_age_hours_max": 1000})
    run = world.marked()
    world.age(days=20)
    bulk_delete(run, world.runner)
    release_lease(run)
    world.age(days=20)
    done = purge(world, older_than_days=30)
    assert done.counts["young_objects"] == len(gone)
    assert leftovers(world) == gone
    world.age(days=15)
    assert purge(world, older_than_days=30).counts["purged_objects"] == len(gone)


def test_a_marker_stays_above_a_version_that_could_not_be_deleted(stand_in: Any) -> None:
    world, kept, gone = undo_world("versions")
    world.run(world.plan())
    world.age(days=40)

    def denied(
        honest: Any, deleter: object, wanted: Sequence[tuple[str, str]], may_send: MaySend = always
    ) -> list[DeleteOutcome]:
        older = store_of(world).older
        assert older is not None
        markers = {item.version_id for items in older.by_key.values() for item in items if item.data is None}
        return [
            honest(deleter, [item], may_send)[0]
            if item[1] in markers
            else DeleteOutcome(item[0], "failed", "AccessDenied")
            for item in wanted
        ]

    stand_in(MemoryVersionDeleter.delete, denied)
    with pytest.raises(UnavailableError, match="AccessDenied"):
        purge(world)
    assert world.data() == kept
    assert leftovers(world) == gone


def test_a_purge_whose_lease_went_to_somebody_else_deletes_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, gone = undo_world("quarantine")
    run = world.collected()
    world.age(days=40)
    look = Choosing.look

    def late(self: Choosing, row: Mapping[str, Any]) -> list[Leftover]:
        found = look(self, row)
        world.age(hours=2)
        run.lease.acquire("somebody else")
        return found

    monkeypatch.setattr(Choosing, "look", late)
    with pytest.raises(LeaseHeldError):
        purge(world)
    assert leftovers(world) == gone


@pytest.mark.parametrize("way", WAYS)
def test_a_purge_that_is_killed_anywhere_is_done_again_and_ends_the_same(way: str) -> None:
    world, kept, _ = small_world(way)
    run = world.collected()
    restore(world, run, address="data/slice0/orphan0", keep_days=100)
    world.age(days=40)
    before = data_bytes(world)
    store = store_of(world)
    with moments_in(store, purging, "purge_runs") as states:
        purge(world)
    assert len(states) > 3
    left = leftovers(world)
    database = lost_database.back_up(world)
    for number, state in enumerate(states):
        state.put_back(store)
        lost_database.restore(world, database)
        world.age(hours=3)
        purge(world)
        assert data_bytes(world) == before, f"killed at write {number}"
        assert leftovers(world) == left, f"killed at write {number}"
    assert kept < world.data()


def test_the_folder_of_a_run_stays_as_long_as_copies_are_in_it() -> None:
    world, _, gone = undo_world("quarantine", keep_runs_days=7)
    run = world.collected()
    for _ in range(3):  # the state must not name the run any more
        world.collect_after(days=20)
    assert leftovers(world) == gone
    assert f"{RUNS}{run.plan.run_id}/plan.json" in world.lake.keys(RUNS)
    purge(world)
    world.collect()
    assert f"{RUNS}{run.plan.run_id}/plan.json" not in world.lake.keys(RUNS)


def test_a_purge_keeps_a_day_at_least() -> None:
    with pytest.raises(ConfigError, match="older_than_days"):
        PurgeConfig(repository="lake", older_than_days=0.5)
