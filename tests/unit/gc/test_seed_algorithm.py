"""The holes in the text of the optimized run, on histories of a few steps: the literal algorithm deletes a live object,
ours does not."""

from dredge.gc.slice_listing import slice_time
from tests.support.gc import World, make_world
from tests.support.seed_algorithm import TOKEN_EXPIRY, clean_run, optimized_run


def old_world() -> World:
    world = make_world(mode="optimized", rules=30)
    world.commit("old", b"old")
    world.age(days=10)
    return world


def test_what_was_staged_and_committed_at_once_and_is_reset_later_still_lives() -> None:
    world = old_world()
    address = world.commit("report", b"1")
    # New metadata stages the committed address again.
    world.lake.catalog.objects.update_user_metadata("lake", "main", "report", {"owner": "me"})
    world.age(days=2)
    _, saved = clean_run(world)
    world.collect()
    world.lake.catalog.branches.reset_branch("lake", "main")
    world.age(days=2)
    deleted, _ = optimized_run(world, saved)
    assert address in deleted, "the text lost its hole"
    report = world.collect()
    assert report.counts["deleted_objects"] == 0
    assert world.lake.read("report") == b"1"


def test_what_was_committed_before_a_run_in_a_slice_too_young_for_it_still_lives() -> None:
    world = old_world()
    address = world.commit("report", b"1")
    opened = slice_time(address.rpartition("/")[0])
    assert opened is not None
    assert opened > world.lake.clock() - TOKEN_EXPIRY
    _, saved = clean_run(world)  # does not read that slice yet
    world.collect()
    world.age(days=2)
    deleted, _ = optimized_run(world, saved)
    assert address in deleted, "the text lost its hole"
    world.collect()
    assert world.lake.read("report") == b"1"
