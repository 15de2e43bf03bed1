"""Where a step is done follows from what earlier steps say that it has to do."""

from __future__ import annotations

from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing, subtract
from dredge.gc.workload import rows_of
from tests.support.gc import busy_world, make_world, summary_of


def test_a_clean_run_compares_what_it_listed_and_deletes_its_candidates() -> None:
    world, kept, gone = busy_world()
    context = world.plan()
    steps = ("slice_listing", "list_committed", "subtract", "bulk_delete", "unknown")
    assert [rows_of(context, step) for step in steps] == [None] * 5
    slice_listing(context, world.runner)
    mark_uncommitted(context, world.runner)
    assert rows_of(context, "list_committed") is None  # all ranges, if nobody has read them before
    assert rows_of(context, "subtract") is None
    list_committed(context, world.runner)
    assert rows_of(context, "subtract") == len(kept | gone)
    subtract(context, world.runner)
    assert rows_of(context, "bulk_delete") == summary_of(context, "subtract").counts["candidates_objects"]


def test_an_optimized_run_also_compares_what_earlier_runs_knew() -> None:
    world = make_world()
    world.rules(days=1)
    for number in range(5):
        world.upload(f"a{number}", b"%d" % number)
    world.lake.commit()
    world.upload("staged", b"staged")
    world.age(days=10)
    world.collect(mode="clean")
    for number in range(3):
        world.upload(f"a{number}", b"new %d" % number)
    world.lake.commit()
    world.age(days=10)
    context = world.plan(mode="optimized")
    to_list = rows_of(context, "slice_listing")
    assert to_list is not None
    slice_listing(context, world.runner)
    listed = summary_of(context, "slice_listing").counts["old_objects"]
    assert 3 <= listed <= to_list
    assert rows_of(context, "list_committed") == listed
    mark_uncommitted(context, world.runner)
    list_committed(context, world.runner)
    # The staged address of then, and the five of the range that is not active any more.
    assert rows_of(context, "subtract") == listed + 1 + 5


def test_a_clean_run_takes_the_lake_for_as_large_as_the_last_one_left_it() -> None:
    world, kept, _ = busy_world()
    world.collect(mode="clean")
    context = world.plan(mode="clean")
    assert rows_of(context, "slice_listing") == len(kept)
    assert rows_of(context, "list_committed") is None  # nothing is listed yet
    slice_listing(context, world.runner)
    assert rows_of(context, "list_committed") == len(kept)


def test_a_clean_run_does_without_a_state_that_cannot_be_read() -> None:
    world, _, _ = busy_world()
    world.collect(mode="clean")
    context = world.plan(mode="clean")
    assert context.plan.state is not None
    context.state.put(context.plan.state.name, b"{}")
    assert rows_of(context, "slice_listing") is None
    slice_listing(context, world.runner)
    assert rows_of(context, "list_committed") is None
