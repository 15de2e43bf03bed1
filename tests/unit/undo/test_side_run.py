"""A run beside collections holds the lease from before its plan to its end, whatever happens."""

import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import LeaseHeldError, RefusedError
from dredge.runs.payload import to_json
from dredge.storage import open_writer
from dredge.undo.side_run import SideRun, side_run
from dredge.xid import descending_time
from tests.support.memory_store import MemoryStore, forget_memory_store, memory_store

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Clock:
    """This machine's, and the store's, which may differ."""

    def __init__(self, store: MemoryStore) -> None:
        self.now = NOW
        store.clock = lambda: NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def place() -> Iterator[str]:
    name = f"side-{uuid.uuid4().hex[:8]}"
    yield f"memory://{name}"
    forget_memory_store(name)


@pytest.fixture
def clock(place: str) -> Clock:
    return Clock(memory_store(place.removeprefix("memory://")))


def begin(place: str, clock: Clock, **more: Any) -> AbstractContextManager[SideRun]:
    state = open_writer(f"{place}/state")
    return side_run(
        "lake", f"{place}/lake", state, f"{place}/runs/", "restore", {"all": True}, clock=clock, **more
    )


def lease_of(place: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(open_writer(f"{place}/state").get("lease.json"))
    return found


def test_a_run_leaves_its_plan_and_gives_the_lease_back(place: str, clock: Clock) -> None:
    with begin(place, clock) as run:
        assert lease_of(place)["holder"] == f"restore {run.plan.run_id}"
        assert descending_time(run.plan.run_id) == NOW == run.plan.created_at
        assert run.folder.uri == f"{place}/runs/{run.plan.run_id}"
        plan = json.loads(run.folder.writer.get("plan.json"))
        assert plan == to_json(run.plan)
        assert (plan["repository"], plan["namespace"], plan["asked"]) == (
            "lake",
            f"{place}/lake",
            {"all": True},
        )
        assert plan["lease"] == to_json(run.plan.lease)
        with pytest.raises(LeaseHeldError), begin(place, clock):
            pass
    assert lease_of(place)["holder"] == ""
    with begin(place, clock, holder="a person"):
        assert lease_of(place)["holder"] == "a person"
        with begin(place, clock, holder="a person"):
            assert lease_of(place)["holder"] == "a person", "who died gets it again"


@pytest.mark.parametrize("seconds", [-301, 301])
def test_with_clocks_that_differ_nothing_is_begun(seconds: int, place: str, clock: Clock) -> None:
    clock.now = NOW + timedelta(seconds=seconds)
    with pytest.raises(RefusedError), begin(place, clock):
        pass
    assert open_writer(f"{place}/runs").list_level("").folders == []
    clock.now = NOW + timedelta(seconds=seconds - seconds // 300)
    with begin(place, clock):
        pass
