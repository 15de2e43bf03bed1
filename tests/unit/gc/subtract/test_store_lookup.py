"""Objects that the store will not describe are held, and asked for again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.gc.subtract.candidates import UNREADABLE
from tests.support import memory_store as memory
from tests.support.gc import make_world, summary_of
from tests.support.identical import held
from tests.support.stand_ins import standing_in

pytestmark = pytest.mark.usefixtures("without_canaries")


@contextmanager
def refusing(address: str, error: Exception) -> Iterator[None]:
    """A store that denies everything but listing of one object: access rules, an archive, a customer's key."""

    def denied(honest: Any, reader: object, key: str, *more: Any) -> Any:
        if key == address:
            raise error
        return honest(reader, key, *more)

    with ExitStack() as stack:
        for name in ("stat", "get", "open_read", "get_range"):
            stack.enter_context(standing_in(getattr(memory.MemoryReader, name), denied))
        yield


def test_an_object_that_cannot_be_read_does_not_end_a_clean_run(stand_in: Any) -> None:
    """Its ETag is that of an upload in parts."""
    world = make_world()
    world.commit("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    stand_in(memory.etag_of, lambda honest, data: honest(data) + "-2")
    world.age(days=2)
    with refusing(orphan, ConfigError("reading it: AccessDenied")):
        world.collect()
    assert orphan not in world.data()


@pytest.mark.parametrize("error", [ConfigError("AccessDenied"), UnavailableError("400 Bad Request")])
def test_an_object_that_the_store_will_not_describe_is_held_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """An optimized run asks for what it knows from the run before."""
    world = make_world()
    world.commit("a", b"same")
    secret, other = world.upload("b", b"staged"), world.upload("c", b"staged, too")
    world.age(days=10)
    world.collect(mode="clean")
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    world.age(days=2)
    for _ in range(2):
        with refusing(secret, error):
            context = world.collected(mode="optimized")
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


@pytest.mark.parametrize(("hours", "goes"), [(1, False), (25, False), (26, True)])
def test_an_object_that_was_written_anew_since_the_run_before_is_as_old_as_its_last_writing(
    hours: float, goes: bool
) -> None:
    """An optimized run knows its address from the run before, and its time from the store alone."""
    world = make_world()
    world.commit("a", b"same")
    anew, other = world.upload("b", b"staged"), world.upload("c", b"staged, too")
    world.age(days=10)
    world.collect(mode="clean")
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    world.age(days=2)
    world.orphan(anew, b"written again")
    world.age(hours=hours)
    run = world.collected(mode="optimized")
    assert run.plan.mode == "optimized"
    assert other not in world.data()
    assert (anew not in world.data()) is goes
    world.age(days=2)
    world.collect(mode="optimized")
    assert anew not in world.data()
