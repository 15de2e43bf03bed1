"""What cannot be looked at is said, and then nothing is called garbage or absent."""

from typing import Any

import pytest

from dredge.errors import UnavailableError
from dredge.gc.insight.why_answer import KEPT, UNKNOWN
from tests.support.gc import World, make_world
from tests.support.memory_store import MemoryReader
from tests.unit.gc.insight.test_why import ask


def down(*_arguments: Any, **_more: Any) -> Any:
    raise UnavailableError("it does not answer")


@pytest.fixture
def world() -> World:
    """A lake with an object that a commit names, one that nothing does, and a run that saw both."""
    world = make_world(rules=30)
    world.commit("a", b"1")
    world.orphan("data/slice/orphan")
    world.age(days=2)
    world.collect(dry_run=True)
    return world


def committed(world: World) -> str:
    return next(key for key in world.data() if "orphan" not in key)


@pytest.mark.parametrize("call", ["branches", "log", "rules", "changes"])
def test_a_server_that_does_not_answer_makes_nothing_garbage(world: World, call: str) -> None:
    setattr(world.client, call, down)
    answer = ask(world, "data/slice/orphan")
    assert answer.verdict == UNKNOWN
    assert answer.failed
    kept = ask(world, committed(world))
    assert kept.verdict == (KEPT if call == "changes" else UNKNOWN)


def test_a_store_that_does_not_answer_makes_nothing_absent(world: World, stand_in: Any) -> None:
    address = committed(world)
    for method in (MemoryReader.stat, MemoryReader.get, MemoryReader.list_level):
        stand_in(method, down)
    answer = ask(world, address)
    assert answer.verdict == UNKNOWN
    assert {"the store", "the files of earlier runs", "commits"} <= answer.failed
