"""Two drivers of one run: a worker was lost, its step was tried again, and the earlier try lives on."""

from __future__ import annotations

import pytest

from dredge.errors import OvertakenError
from dredge.gc.context import Context
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.runs.tasks import LocalRunner
from tests.support.gc import World, busy_world, stage_again


def driver(world: World, context: Context) -> Context:
    """Another driver of the same run, as a retry in another process has it."""
    return Context.open(context.plan.run_uri, None, world.client, world.lake.clock)


def test_sweep_keeps_what_only_an_orphaned_try_of_list_committed_saw() -> None:
    """It slept through its retry, and saw a commit that the retry's candidates were not compared with."""
    world, kept, gone = busy_world()
    orphan = world.plan()
    retry = driver(world, orphan)
    for step in (slice_listing, mark_uncommitted):
        step(orphan, LocalRunner())
    late = min(gone)

    def retry_and_commit() -> None:
        list_committed(retry, LocalRunner())
        subtract(retry, LocalRunner())
        check_limits(retry)
        stage_again(world, late, size_bytes=2)
        world.lake.commit()

    with (
        world.during("branches", retry_and_commit),
        pytest.raises(OvertakenError, match="try 1 of step committed"),
    ):
        list_committed(orphan, LocalRunner())
    bulk_delete(retry, LocalRunner())
    assert late in world.data()
    assert world.data() == kept | {late}
