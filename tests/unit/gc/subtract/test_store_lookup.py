"""Objects that the store will not describe are held, and asked for again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.gc.subtract.holds import UNREADABLE
from dredge.gc.subtract.store_lookup import _Shards
from dredge.hashing import hash64
from tests.support import memory_store as memory
from tests.support.gc import Parallel, make_world, summary_of
from tests.support.identical import held
from tests.support.inventories import Inventory

pytestmark = pytest.mark.usefixtures("without_canaries")


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, address: str, error: Exception) -> Iterator[None]:
    """A store that denies everything but listing of one object: access rules, an archive, a customer's key."""
    with monkeypatch.context() as patch:
        for name in ("stat", "get", "open_read", "get_range"):
            honest = getattr(memory.MemoryReader, name)

            def denied(self: Any, key: str, *more: Any, honest: Any = honest) -> Any:
                if key == address:
                    raise error
                return honest(self, key, *more)

            patch.setattr(memory.MemoryReader, name, denied)
        yield


def test_an_object_that_cannot_be_read_does_not_end_a_clean_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ETag is that of an upload in parts."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"else")
    monkeypatch.setattr(memory, "_etag", lambda data: hashlib.md5(data).hexdigest() + "-2")
    world.age(days=2)
    with refusing(monkeypatch, orphan, ConfigError("reading it: AccessDenied")):
        world.collect()
    assert orphan not in world.data()


@pytest.mark.parametrize("error", [ConfigError("AccessDenied"), UnavailableError("400 Bad Request")])
def test_an_object_that_the_store_will_not_describe_is_held_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """An optimized run asks for what it knows from the run before."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    secret, other = world.upload("b", b"staged"), world.upload("c", b"staged, too")
    world.age(days=10)
    world.collect(mode="clean")
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    world.age(days=2)
    for _ in range(2):
        with refusing(monkeypatch, secret, error):
            context = world.plan(mode="optimized")
            world.run(context)
        assert context.plan.mode == "optimized"
        assert secret in world.data()
        assert other not in world.data()
        assert held(context) == {UNREADABLE: 1}
        (warning,) = summary_of(context, "subtract").warnings
        assert "refused" in warning
        assert str(error) in warning
        ledger = summary_of(context, "bulk_delete")
        assert [group["code"] for group in ledger.details["groups"] if group["outcome"] == "kept"] == [
            "unreadable"
        ]
        report = context.folder.read_json("report.json")
        assert [item["examples"] for item in report["held"]] == [[{"address": secret, "size": 0}]]
        world.age(hours=1)
    world.collect(mode="optimized")
    assert secret not in world.data()


def test_what_lies_in_one_folder_is_one_tasks_and_large_folders_are_everybodys() -> None:
    addresses = pa.array([f"data/{place}/{number}" for place in ("a", "b", "large") for number in range(200)])
    rows = pa.table({"address": addresses, "hash": hash64(addresses)})
    found = [_Shards([number], ["data/large/"]).of(rows)["address"].to_pylist() for number in range(64)]
    assert sorted(name for names in found for name in names) == sorted(addresses.to_pylist())
    tasks = {
        folder: sum(any(name.startswith(folder) for name in names) for names in found)
        for folder in ("data/a/", "data/b/", "data/large/")
    }
    assert (tasks["data/a/"], tasks["data/b/"]) == (1, 1)
    assert tasks["data/large/"] > 30


def test_each_of_several_tasks_finds_its_objects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dredge.gc.subtract.earlier_runs._LARGE", 5)
    world = make_world()
    world.runner = Parallel()
    names = {
        world.orphan(f"data/{place}/{number}")
        for place in "abc"
        for number in range(4 if place == "a" else 9)
    }
    world.age(days=3)
    uri = Inventory(world).write()
    world.age(hours=1)
    context = world.plan(inventory=uri)
    world.run(context)
    counts = summary_of(context, "subtract").counts
    assert (counts["earlier_objects"], counts["candidates_objects"]) == (len(names), len(names))
    assert world.data() == set()


@pytest.mark.parametrize(("hours", "goes"), [(1, False), (25, False), (26, True)])
def test_an_object_that_was_written_anew_since_the_run_before_is_as_old_as_its_last_writing(
    hours: float, goes: bool
) -> None:
    """An optimized run knows its address from the run before, and its time from the store alone."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    anew, other = world.upload("b", b"staged"), world.upload("c", b"staged, too")
    world.age(days=10)
    world.collect(mode="clean")
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    world.age(days=2)
    world.orphan(anew, b"written again")
    world.age(hours=hours)
    run = world.plan(mode="optimized")
    world.run(run)
    assert run.plan.mode == "optimized"
    assert other not in world.data()
    assert (anew not in world.data()) is goes
    world.age(days=2)
    world.collect(mode="optimized")
    assert anew not in world.data()
