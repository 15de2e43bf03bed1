"""A local run takes its lease again to go on, and gives it back where it may not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.run import is_local, local_holder, take_again
from dredge.runs.versions import Current
from dredge.storage import open_writer
from tests.support.lakes import ManualClock
from tests.support.memory_store import forget_memory_store
from tests.support.versions import Told

OLD, NEW = Current(etag="old"), Current(etag="new", state=Told("r2"))


@pytest.fixture
def lease() -> Iterator[Lease]:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    yield Lease(open_writer("memory://resuming-test"), timedelta(hours=1), clock)
    forget_memory_store("resuming-test")


@pytest.fixture
def run(lease: Lease) -> Any:
    """A local run whose process has ended."""
    grant = lease.acquire(local_holder("r1"))
    lease.release(grant)
    plan = SimpleNamespace(run_id="r1", lease=grant)
    return SimpleNamespace(plan=plan, lease=lease, folder=SimpleNamespace(uri="memory://resuming-test/r1"))


def again(run: Any, current: Current[Told], goes_on: bool = True) -> list[LeaseGrant]:
    """Take it again; gives the leases under which it went on."""
    given: list[LeaseGrant] = []

    def resume(grant: LeaseGrant) -> bool:
        given.append(grant)
        return goes_on

    take_again(run, "old", lambda: current, resume)
    return given


def is_free(lease: Lease) -> bool:
    try:
        lease.release(lease.acquire("somebody else"))
    except LeaseHeldError:
        return False
    return True


@pytest.mark.parametrize("current", [OLD, Current(etag="new", state=Told("r1"))])
def test_a_run_goes_on_from_the_state_it_began_with_or_made(
    run: Any, lease: Lease, current: Current[Told]
) -> None:
    (grant,) = again(run, current)
    assert (grant.holder, grant.fencing) == (local_holder("r1"), 2)
    assert not is_free(lease), "it holds the lease"


@pytest.mark.parametrize("current", [NEW, Current(etag="new"), Current()])
def test_a_run_does_not_go_on_from_another_state_and_gives_the_lease_back(
    run: Any, lease: Lease, current: Current[Told]
) -> None:
    with pytest.raises(RefusedError):
        again(run, current)
    assert is_free(lease)


def test_a_run_that_is_resumed_elsewhere_is_left_to_it(run: Any, lease: Lease) -> None:
    with pytest.raises(RefusedError):
        again(run, OLD, goes_on=False)
    assert is_free(lease)


def test_a_run_of_an_orchestrator_is_left_to_it(run: Any, lease: Lease) -> None:
    assert is_local(run.plan)
    run.plan.lease = lease.acquire("lakefs_gc manual__1")
    assert not is_local(run.plan)
    with pytest.raises(ConfigError):
        again(run, OLD)
    lease.check(run.plan.lease)
