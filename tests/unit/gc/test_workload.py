"""Without an earlier run, a look at a few slices tells how many objects a listing will have."""

import pytest

from dredge.gc.workload import rows_of
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world


def fill(world: World, *counts: int) -> None:
    for count in counts:
        folder = f"data/{new_descending_xid(world.lake.clock())}"
        world.age(hours=1)
        for number in range(count):
            world.orphan(f"{folder}/{number:05d}")


@pytest.mark.parametrize(("counts", "rows"), [([], 0), ([3, 4], 7), ([2] * 40, 80), ([1, 5_000, 2], 50_003)])
def test_slices_are_counted_and_a_long_one_counts_as_full(counts: list[int], rows: int) -> None:
    world = make_world()
    fill(world, *counts)
    assert rows_of(world.plan(), "slice_listing") == rows


def test_a_folder_that_is_no_slice_may_have_any_number_of_objects() -> None:
    world = make_world()
    fill(world, 1)
    world.orphan("data/!ab/c/x")
    assert rows_of(world.plan(), "slice_listing") is None


def test_a_later_run_has_as_many_objects_as_the_run_before() -> None:
    world = make_world()
    world.rules(30)
    world.commit("a")
    world.orphan("data/!ab/c/x")
    world.age(days=2)
    world.collect()
    assert rows_of(world.plan(), "slice_listing") is not None
