"""Results belong together: one unbroken chain, in the order of the safety argument, by whatever clock."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dredge.errors import RefusedError
from dredge.gc.run import PLAN
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.runs.payload import to_json
from tests.support.gc import busy_world
from tests.support.tries import HERE, STEPS, driver, undo


@pytest.mark.parametrize(
    "name", ["slice_listing", "mark_uncommitted", "list_committed", "subtract", "check_limits"]
)
def test_sweep_accepts_one_unbroken_chain_only(name: str) -> None:
    """Each result that is made again, however equal, must be followed by all after it."""
    world, kept, gone = busy_world()
    context = world.marked()
    undo(context, name)
    with pytest.raises(RefusedError):  # it is missing
        bulk_delete(context, HERE)
    STEPS[name](context, HERE)
    if name != "check_limits":
        with pytest.raises(RefusedError):
            bulk_delete(context, HERE)
    assert world.data() == kept | gone
    world.run(context)
    assert world.data() == kept


def test_sweep_refuses_a_plan_that_is_not_the_one_the_listing_was_made_for() -> None:
    world, kept, gone = busy_world()
    context = world.marked()
    later = replace(context.plan, cutoff=context.plan.cutoff + timedelta(days=30))
    context.folder.write_json(PLAN, to_json(later))
    with pytest.raises(RefusedError, match="of plan"):
        bulk_delete(driver(world, context), HERE)
    assert world.data() == kept | gone


@pytest.mark.parametrize("seconds", [-7200, -2])
def test_clocks_of_workers_do_not_hide_a_wrong_order(seconds: float) -> None:
    """The listing was made again after staging was read, on a machine whose clock is behind."""
    world, kept, gone = busy_world()
    context = world.plan()
    slice_listing(context, HERE)
    world.age(seconds=1)
    mark_uncommitted(context, HERE)
    undo(context, "slice_listing")
    elsewhere = driver(world, context)
    elsewhere.clock = lambda: world.lake.clock() + timedelta(seconds=seconds)
    slice_listing(elsewhere, HERE)
    list_committed(context, HERE)
    subtract(context, HERE)
    with pytest.raises(RefusedError, match=r"order: .*mark_uncommitted"):
        check_limits(context)
    with pytest.raises(RefusedError):
        bulk_delete(context, HERE)
    assert world.data() == kept | gone


def test_a_dry_run_does_not_count_what_its_guards_did_not_see() -> None:
    world, _, _ = busy_world(dry_run=True)
    context = world.marked(dry_run=True)
    undo(context, "subtract")
    subtract(context, HERE)
    with pytest.raises(RefusedError, match="check_limits"):
        bulk_delete(context, HERE)
