"""Several runs that wait, and several people who answer."""

from typing import Any

import pytest

from dredge.errors import AwaitingApprovalError, LeaseHeldError, RejectedError
from dredge.gc.approve import approve
from dredge.gc.config import GCConfig
from dredge.gc.planning import acquire_lease, plan_run
from dredge.gc.run import Run
from dredge.gc.steps import put_question
from dredge.runs.payload import from_json
from tests.support.approvals import said, waiting_run
from tests.support.gc import World, busy_world
from tests.support.memory_store import MemoryWriter


def begun(world: World, config: GCConfig, holder: str) -> Run:
    grant = acquire_lease(config, holder, world.client)
    plan = plan_run(config, grant, world.client, None, world.lake.clock)
    run = Run.open(plan.run_uri, None, world.client, world.lake.clock)
    world.mark(run)
    return run


def test_of_ten_runs_that_have_to_ask_one_asks_at_a_time_and_the_last_ones_find_nothing_left() -> None:
    world, kept, gone = busy_world(approval="always")
    config = from_json(
        GCConfig,
        {
            **world.settings,
            "repository": world.lake.repository,
            "dry_run": False,
            "mode": "clean",
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
        },
    )
    holders = [f"gc_lake backfill__{number}" for number in range(10)]
    asked: list[str] = []
    for number, holder in enumerate(holders):
        run = begun(world, config, holder)
        if number >= 7:
            assert approve(run) is None, "nothing is left to delete"
            world.run(run)
            continue
        with pytest.raises(AwaitingApprovalError):
            approve(run)
        put_question(run)
        asked.append(holder)
        assert world.data() == kept | gone
        for hours in (0, 6, 5.9):
            world.age(hours=hours)
            for other in set(holders) - {holder}:
                with pytest.raises(LeaseHeldError):
                    acquire_lease(config, other, world.client)
        said(run, "approved" if number == 6 else "rejected")
        if number < 6:
            with pytest.raises(RejectedError):
                world.run(run)
        else:
            world.run(run)
    assert asked == holders[:7]
    assert world.data() == kept


@pytest.mark.parametrize("moment", ["before", "look", "record", "later"])
def test_a_no_at_any_moment_of_somebody_elses_yes_wins(moment: str, stand_in: Any) -> None:
    world, run, kept, gone = waiting_run()

    def interrupted(put: Any, writer: object, key: str, data: bytes) -> object:
        if key.endswith("/approved.json") and moment == "look":
            said(run, "rejected", by="eve")
        done = put(writer, key, data)
        if key.endswith("/approved.json") and moment == "record":
            said(run, "rejected", by="eve")
        return done

    stand_in(MemoryWriter.put_if_absent, interrupted)
    if moment == "before":
        said(run, "rejected", by="eve")
    if moment == "later":
        said(run, by="ada")
        said(run, "rejected", by="eve")
    else:
        with pytest.raises(RejectedError):
            said(run, by="ada")
    with pytest.raises(RejectedError):
        world.run(run)
    assert world.data() == kept | gone
