"""A right that is held while some work goes on: renewed meanwhile, and given back at its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.runs.lease import LEASE, Lease
from dredge.storage import open_reader, open_writer
from tests.support.lakes import ManualClock
from tests.support.memory_store import forget_memory_store

TTL = timedelta(hours=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def lease(clock: ManualClock) -> Iterator[Lease]:
    yield Lease(open_writer("memory://lease-test"), TTL, clock)
    forget_memory_store("lease-test")


def test_work_that_failed_says_why_also_when_its_right_cannot_be_given_back(
    clock: ManualClock, lease: Lease
) -> None:
    """A refusal is never tried again, a store that is away is."""

    class Away:
        def __getattr__(self, name: str) -> Any:
            return getattr(open_writer("memory://lease-test"), name)

        def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
            raise UnavailableError("the store is away")

    away: Any = Away()
    mine, grant = Lease(away, TTL, clock), lease.acquire("one")
    with pytest.raises(RefusedError), mine.given_back(grant):
        raise RefusedError("named again")
    with pytest.raises(UnavailableError), mine.given_back(grant):
        pass
    lease.check(grant)


def test_a_kept_lease_is_renewed_in_the_background(clock: ManualClock) -> None:
    lease = Lease(open_writer("memory://lease-test"), timedelta(seconds=0.04), clock)
    grant = lease.acquire("one")
    before = open_reader("memory://lease-test").get(LEASE)
    clock.advance(minutes=1)
    with lease.kept(grant):
        for _ in range(200):
            if open_reader("memory://lease-test").get(LEASE) != before:
                break
            threading.Event().wait(0.01)
    assert open_reader("memory://lease-test").get(LEASE) != before
    forget_memory_store("lease-test")


@pytest.mark.parametrize("end", ["given back", "overtaken"])
def test_a_lease_is_not_kept_for_a_step_that_nobody_waits_for(clock: ManualClock, end: str) -> None:
    writer = open_writer("memory://lease-kept")
    lease = Lease(writer, timedelta(seconds=0.04), clock)
    grant = lease.acquire("one")
    if end == "given back":
        lease.release(grant)
    left = writer.get(LEASE)
    clock.advance(minutes=1)
    with lease.kept(grant, lambda: end != "overtaken"):
        for keeper in [thread for thread in threading.enumerate() if thread.name == "lease"]:
            keeper.join(10)  # unless it has ended already
            assert not keeper.is_alive()
    assert writer.get(LEASE) == left
    forget_memory_store("lease-kept")
