"""Comparing shard by shard gives what comparing with the whole live set gives, and loses nothing on the way."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing, subtract
from dredge.gc.subtract.step import cut_parts, find_dead, subtract_parts
from dredge.runs.payload import PartInfo
from dredge.sets.live import LiveSet
from tests.support.gc import Parallel, World, make_world, summary_of

SMALL = {"shard_values": 3, "part_rows": 4, "candidate_rows": 5}


def world_of(chance: random.Random) -> World:
    """A lake with committed, staged, dropped and never referenced objects."""
    world = make_world(tuning=SMALL)
    world.runner = Parallel()
    world.rules(days=1)
    for number in range(chance.randrange(5, 25)):
        world.upload(f"a{number}", b"%d" % number)
    world.lake.commit()
    for number in range(chance.randrange(10)):
        world.upload(f"a{number}", b"staged %d" % number)
    for number in range(chance.randrange(1, 20)):
        world.orphan(f"data/slice{number % 3}/{number}", b"garbage %d" % number)
    world.age(days=10)
    return world


def marked(world: World, mode: str) -> tuple[Run, LiveSet, list[PartInfo]]:
    run = world.plan(mode=mode)
    slice_listing(run, world.runner)
    mark_uncommitted(run, world.runner)
    list_committed(run, world.runner)
    live = ListCommittedOutput.of(summary_of(run, "list_committed")).live
    return run, live, SliceListingOutput.of(summary_of(run, "slice_listing")).listed


@pytest.mark.parametrize("seed", range(5))
def test_both_ways_find_the_same(seed: int) -> None:
    chance = random.Random(seed)
    world = world_of(chance)
    for mode in ("clean", "optimized"):
        run, live, listed = marked(world, mode)
        assert live.bits > 0
        hashes = [rows["hash"].to_numpy() for rows in run.folder.read_parts(listed, ["hash"])]
        dead = find_dead(run, world.runner, live, listed)
        for found, expected in zip(dead.find(run.folder, hashes), live.find(hashes), strict=True):
            assert np.array_equal(~found, expected)
        world.run(run)
        for number in range(chance.randrange(1, 6)):
            world.upload(f"a{number}", f"{mode} {number}".encode())
        world.lake.commit()
        world.orphan(f"data/late/{mode}", b"garbage of later")
        world.age(days=10)


class Forgetful(Parallel):
    """Leaves out the last task of the first or the second round."""

    def __init__(self, cuts: bool) -> None:
        super().__init__()
        self.cuts = cuts

    def run(self, name: str, fn: Any, config: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Any:
        return super().run(name, fn, config, tasks[:-1] if (fn is cut_parts) == self.cuts else tasks)


@pytest.mark.parametrize("cuts", [True, False], ids=["cut", "compare"])
def test_what_no_task_compared_stops_the_run(cuts: bool) -> None:
    run, live, listed = marked(world_of(random.Random(3)), "clean")
    with pytest.raises(FormatError, match="were compared"):
        find_dead(run, Forgetful(cuts), live, listed)


class Counting(Parallel):
    """Notes the rows of each task's files, by function."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[Any, list[int]] = {}

    def run(self, name: str, fn: Any, config: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Any:
        if fn in (cut_parts, subtract_parts):
            self.rows[fn] = [sum(part["rows"] for part in task["task"]) for task in tasks]
        return super().run(name, fn, config, tasks)


def test_a_task_has_few_rows_however_many_there_are() -> None:
    world = world_of(random.Random(3))
    world.settings["tuning"] = SMALL | {"task_rows": 5}
    world.runner = runner = Counting()
    run, live, listed = marked(world, "clean")
    subtract(run, runner)
    find_dead(run, runner, live, listed)
    rows, largest = sum(part.rows for part in listed), max(part.rows for part in listed)
    assert list(runner.rows) == [subtract_parts, cut_parts]
    assert all(sum(found) == rows > 15 and max(found) <= 5 + largest for found in runner.rows.values())
