"""A restore after a purge says that nothing is left, and pins nothing that is not there."""

from __future__ import annotations

from dredge.undo.pins import read_pins
from tests.support.undo import purge, restore, store_of, undo_world
from tests.support.wrong_runs import state_of
from tests.unit.gc.purge.test_purge import leftovers


def test_what_came_back_is_pinned_and_what_is_gone_is_not() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.plan()
    world.run(run)
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
