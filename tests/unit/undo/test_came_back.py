"""What came back into a slice that runs are done with is found again: its slice is listed until a run has seen it."""

import pytest

from dredge.gc.run import Run
from dredge.undo.pins import read_pins
from tests.support.gc import World, make_world, summary_of
from tests.support.memory_versions import OlderVersions
from tests.support.undo import WAYS, moments, restore, store_of


def swept_world(
    way: str = "quarantine", days: float = 9, **settings: object
) -> tuple[World, Run, set[str], str]:
    """A lake whose one slice is covered: with what lives there, and with what a clean run deleted from it."""
    world = make_world(mode="auto", undo=way, **settings)
    if way == "versions":
        store_of(world).older = OlderVersions()
    world.rules(30)
    kept = {world.upload("a", b"committed")}
    world.lake.commit()
    kept.add(world.upload("b", b"staged"))
    gone = world.upload("c", b"overwritten")
    kept.add(world.upload("c", b"staged as well"))
    world.age(days=days)
    run = world.plan()
    world.run(run)
    assert world.data() == kept
    return world, run, kept, gone


def collected(world: World, **settings: object) -> tuple[Run, dict[str, int]]:
    run = world.plan(**settings)
    assert run.plan.mode == "optimized"
    world.run(run)
    counts = summary_of(run, "slice_listing").counts
    return run, {name: counts[name] for name in ("again_slices", "covered_slices", "other_slices")}


@pytest.mark.parametrize("way", WAYS)
def test_what_came_back_is_garbage_again_after_its_pin_and_what_lives_beside_it_stays(way: str) -> None:
    world, run, kept, gone = swept_world(way)
    restore(world, run, all=True, keep_days=5)
    world.age(days=2)
    _, counts = collected(world)
    assert counts == {"again_slices": 1, "covered_slices": 0, "other_slices": 0}
    assert world.data() == kept | {gone}, "pinned"
    world.age(days=4)
    _, counts = collected(world)
    assert counts == {"again_slices": 0, "covered_slices": 1, "other_slices": 0}, "it was carried"
    assert world.data() == kept
    world.assert_readable()


def test_what_is_too_young_is_listed_again_until_it_is_old() -> None:
    world, run, kept, gone = swept_world()
    restore(world, run, all=True, keep_days=1)
    world.age(hours=20)
    assert collected(world)[1]["again_slices"] == 1
    world.age(hours=20)
    assert collected(world)[1]["again_slices"] == 1, "the run before might have seen it as young"
    assert world.data() == kept
    world.age(days=2)
    assert collected(world)[1]["again_slices"] == 0
    assert gone not in world.data()


def test_after_a_restore_that_died_its_slices_are_listed_until_its_pin_has_ended() -> None:
    """Nobody knows when its last request was done."""
    world, run, kept, gone = swept_world()
    store = store_of(world)
    with moments(store) as states:
        restore(world, run, all=True, keep_days=10)
    back = [
        state
        for state in states
        if any(key.endswith(gone) and "quarantine" not in key for key in state.objects)
    ]
    back[0].put_back(store)
    (pin,) = read_pins(run.state)
    assert pin.finished_at is None
    for days, again in ((3, 1), (4, 1), (5, 1), (3, 0)):
        world.age(days=days)
        assert collected(world)[1]["again_slices"] == again
        assert (gone in world.data()) == (world.lake.clock() < pin.until)
    assert world.data() == kept


def test_a_pin_stays_until_a_run_has_seen_what_came_back() -> None:
    """A great minimum age: for a week after the end of the pin everything is young."""
    world, run, _, _ = swept_world(
        days=40, min_age_hours=24 * 20, slice_margin_hours=24 * 25, keep_runs_days=1000
    )
    restore(world, run, all=True, keep_days=1)
    world.age(days=10)
    collected(world)
    assert len(read_pins(run.state)) == 1
    world.age(days=12)
    assert collected(world)[1]["again_slices"] == 1
    assert read_pins(run.state) == []
