"""What cannot be looked at is said, and then nothing is called garbage or absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.insight.why_answer import GARBAGE, KEPT, UNKNOWN
from dredge.storage import open_deleter
from tests.support.gc import World, make_world
from tests.support.memory_store import MemoryReader
from tests.unit.gc.insight.test_why import ask


def down(*_arguments: Any, **_more: Any) -> Any:
    raise UnavailableError("it does not answer")


@pytest.fixture
def world() -> World:
    """A lake with an object that a commit names, one that nothing does, and a run that saw both."""
    world = make_world()
    world.rules(30)
    world.upload("a", b"1")
    world.lake.commit()
    world.orphan("data/slice/orphan")
    world.age(days=2)
    world.collect(dry_run=True)
    return world


def committed(world: World) -> str:
    return next(key for key in world.data() if "orphan" not in key)


def test_an_index_that_is_gone_or_damaged_changes_no_answer(world: World) -> None:
    before = {key: ask(world, key) for key in world.data()}
    index = list(world.lake.keys("_lakefs/retention/gc/dredge/index/"))
    assert index
    for key in index:
        world.lake.objects.put(key, b"damaged")
    assert {key: ask(world, key) for key in before} == before
    open_deleter(world.lake.namespace).delete(index)
    assert {key: ask(world, key) for key in before} == before
    assert [before["data/slice/orphan"].verdict, before[committed(world)].verdict] == [GARBAGE, KEPT]


def test_a_range_that_is_gone_as_well_is_named(world: World) -> None:
    address = committed(world)
    open_deleter(world.lake.namespace).delete(list(world.lake.keys("_lakefs/retention/gc/dredge/index/")))
    tables = [key for key in world.lake.keys("_lakefs/") if len(Path(key).name) == 64]
    open_deleter(world.lake.namespace).delete(tables)
    answer = ask(world, address)
    assert answer.verdict == UNKNOWN
    assert any(said.startswith("range ") for said in answer.not_looked_at)


@pytest.mark.parametrize("call", ["branches", "log", "rules", "changes"])
def test_a_server_that_does_not_answer_makes_nothing_garbage(
    world: World, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.client), call, down)
    answer = ask(world, "data/slice/orphan")
    assert answer.verdict == UNKNOWN
    assert answer.failed
    kept = ask(world, committed(world))
    assert kept.verdict == (KEPT if call == "changes" else UNKNOWN)


def test_a_store_that_does_not_answer_makes_nothing_absent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = committed(world)
    for method in ("stat", "get", "list_level"):
        monkeypatch.setattr(MemoryReader, method, down)
    answer = ask(world, address)
    assert answer.verdict == UNKNOWN
    assert {"the store", "what runs left", "commits"} <= answer.failed


def test_pins_that_cannot_be_read_are_named(world: World) -> None:
    world.lake.objects.put("_lakefs/retention/gc/dredge/pins/x.json", b"{}")
    answer = ask(world, "data/slice/orphan")
    assert answer.verdict == UNKNOWN
    assert any(said.startswith("pins: ") for said in answer.not_looked_at)


def test_what_somebody_has_to_put_right_is_raised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> Any:
        raise RefusedError("the history has no root")

    monkeypatch.setattr(type(world.client), "branches", refuse)
    with pytest.raises(RefusedError):
        ask(world, "data/slice/orphan")
