"""Others move between two looks of a sweep, a restore or a purge: nothing that is there is lost by it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from dredge.errors import FormatError, UnavailableError
from dredge.gc.steps import bulk_delete
from dredge.storage import ObjectVersion
from dredge.undo import deleted
from dredge.undo.leftovers import Choosing, Leftover
from tests.support.gc import World
from tests.support.memory_store import MemoryVersions
from tests.support.memory_versions import OlderVersions
from tests.support.stand_ins import standing_in
from tests.support.undo import data_bytes, purge, restore, store_of, undo_world

LIVE = b"uploaded again by somebody else"


def versions_of(world: World) -> OlderVersions:
    older = store_of(world).older
    assert older is not None
    return older


@contextmanager
def right_after_a_look(action: Callable[[], object]) -> Iterator[None]:
    """Do something between a look at versions and the request that deletes some, once."""
    left = [1]

    def look(honest: Any, reader: object, key: str) -> list[ObjectVersion]:
        found: list[ObjectVersion] = honest(reader, key)
        if left:
            left.clear()
            action()
        return found

    with standing_in(MemoryVersions.versions, look):
        yield


def test_a_restore_never_takes_a_marker_without_an_id_of_its_own_while_it_may_become_an_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While versioning is suspended an upload takes the place, and the id, of the marker that was looked at."""
    world, _, gone = undo_world("versions")
    run = world.plan()
    world.run(run)
    key = min(gone)
    older = versions_of(world)
    older.suspended = True
    store = store_of(world)
    store.remove(next(name for name in older.by_key if name.endswith(key)))
    with (
        right_after_a_look(lambda: world.orphan(key, LIVE)),
        pytest.raises(UnavailableError),
    ):
        restore(world, run, address=key)
    assert data_bytes(world)[key] == LIVE
    # Nothing was lost: once versioning is on again, the key is free, and the object comes back.
    store.remove(next(name for name in store.objects if name.endswith(key)))
    older.suspended = False
    assert restore(world, run, address=key).counts["restored_objects"] == 1


def test_a_purge_never_takes_a_version_without_an_id_of_its_own_while_it_may_become_a_live_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was uploaded before the bucket kept versions has the id that an upload takes once that is suspended."""
    world, _, gone = undo_world("versions")
    key = min(gone)
    older = versions_of(world)
    older.nameless.update(store_of(world).objects)
    world.run(world.plan())
    world.age(days=40)

    look = Choosing.look

    def late(self: Choosing, row: Mapping[str, Any]) -> list[Leftover]:
        found = look(self, row)
        if row["address"] == key:
            world.orphan(key, LIVE)
        return found

    older.suspended = True
    monkeypatch.setattr(Choosing, "look", late)
    with pytest.raises(UnavailableError):
        purge(world)
    assert data_bytes(world)[key] == LIVE


def test_what_was_put_under_the_key_since_the_listing_is_not_taken_for_what_was_listed() -> None:
    """It is as long as the other, so only its tag tells."""
    world, kept, gone = undo_world("quarantine")
    run = world.plan()
    world.mark(run)
    key = min(gone)
    length = len(data_bytes(world)[key])
    world.orphan(key, b"!" * length)
    bulk_delete(run, world.runner)
    assert world.data() == kept | {key}
    assert data_bytes(world)[key] == b"!" * length


def test_a_damaged_copy_is_not_put_under_the_key() -> None:
    """Wrong bytes under the right name are worse than none, and no later restore could take their place."""
    world, _, gone = undo_world("quarantine")
    before = data_bytes(world)
    run = world.plan()
    world.run(run)
    key = min(gone)
    run.folder.writer.put(f"quarantine/{key}", b"half of")
    with pytest.raises(UnavailableError):
        restore(world, run, all=True)
    assert key not in data_bytes(world)
    run.folder.writer.put(f"quarantine/{key}", before[key])
    restore(world, run, all=True)
    assert data_bytes(world) == before


def test_nothing_outside_the_data_is_purged_or_restored_whatever_the_files_of_a_run_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, _ = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    read_part = deleted.RunFolder.read_part

    def elsewhere(self: Any, part: Any, columns: Any = None) -> Any:
        rows = read_part(self, part, columns)
        if "address" not in rows.column_names or not rows.num_rows:
            return rows
        at = rows.column_names.index("address")
        names = ["_lakefs/x", *rows["address"].to_pylist()[1:]]
        return rows.set_column(at, "address", [names])

    world.age(days=40)
    monkeypatch.setattr(deleted.RunFolder, "read_part", elsewhere)
    with pytest.raises(FormatError):
        restore(world, run, all=True)
    with pytest.raises(FormatError):
        purge(world)
