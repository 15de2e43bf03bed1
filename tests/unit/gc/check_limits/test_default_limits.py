"""Limits that no user set: a fifth of what is listed, and 1,000 objects in the first run that deletes without undo."""

from typing import Any

import pytest

from dredge.errors import AwaitingApprovalError
from dredge.gc.config import GCConfig
from dredge.gc.steps import resume
from dredge.runs.limits import FIRST_OBJECTS_MAX
from dredge.undo.deletions import read_deletions
from tests.support.approvals import said
from tests.support.gc import World, make_world

BY_DEFAULT = GCConfig(repository="lake").max_delete_percent


def orphans(world: World, many: int, name: str) -> set[str]:
    found = {world.orphan(f"data/{name}/{number:05d}", b"x%d" % number) for number in range(many)}
    world.age(days=2)
    return found


def limits_of(run: Any) -> dict[str, Any]:
    return {
        item["rule"]: (item["verdict"], item["limit"])
        for item in run.folder.read_json("guard.json")["findings"]
        if item["rule"].startswith("max_")
    }


@pytest.mark.parametrize(("garbage", "asks"), [(3, True), (2, False)])
def test_a_run_that_would_delete_more_than_a_fifth_deletes_nothing_before_the_answer(
    garbage: int, asks: bool
) -> None:
    world = make_world(max_delete_percent=BY_DEFAULT)
    kept = {world.upload(f"a{number}", b"%d" % number * 9) for number in range(8)}
    world.lake.commit()
    gone = orphans(world, garbage, "slice")
    run = world.plan()
    if not asks:
        world.run(run)
        assert world.data() == kept
        return
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    assert limits_of(run)["max_percent"] == ("awaiting_approval", 20.0)
    assert world.data() == kept | gone
    assert not read_deletions(run.state).found
    said(run)
    resume(run.plan.run_uri, world.runner, world.client, clock=world.lake.clock)
    assert world.data() == kept


def test_only_the_first_run_that_deletes_without_undo_asks_beyond_a_thousand_objects() -> None:
    world = make_world()
    kept = {world.upload("a", b"a")}
    world.lake.commit()
    gone = orphans(world, FIRST_OBJECTS_MAX + 1, "first")
    run = world.plan()
    assert run.plan.undo.way == "off"
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    assert limits_of(run)["max_objects"] == ("awaiting_approval", FIRST_OBJECTS_MAX)
    assert world.data() == kept | gone
    said(run)
    resume(run.plan.run_uri, world.runner, world.client, clock=world.lake.clock)
    assert world.data() == kept
    orphans(world, FIRST_OBJECTS_MAX + 1, "second")
    world.collect()
    assert world.data() == kept


def test_a_first_run_whose_deletions_can_be_taken_back_asks_nobody() -> None:
    world = make_world(undo="quarantine")
    kept = {world.upload("a", b"a")}
    world.lake.commit()
    orphans(world, FIRST_OBJECTS_MAX + 1, "first")
    world.collect()
    assert world.data() == kept
