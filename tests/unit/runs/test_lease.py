"""The lease: one holder, expiry by the store's clock, numbers that only grow."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dredge.errors import ConflictError, FormatError, LeaseHeldError, UnavailableError
from dredge.runs.lease import LEASE, HeldLease, Lease, LeaseGrant, hand_over, read_lease_end
from dredge.runs.payload import to_json
from dredge.storage import ObjectWriter, open_reader, open_writer
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


def test_one_holder_at_a_time(lease: Lease) -> None:
    lease.acquire("one")
    with pytest.raises(LeaseHeldError):
        lease.acquire("two")


def _same(held: HeldLease | None) -> HeldLease | None:
    return held


def test_a_lease_that_others_changed_since_it_was_read_is_not_taken(lease: Lease) -> None:
    lease.release(lease.acquire("one"))
    for held in (None, lease.read()):
        other = lease.acquire("two")
        with pytest.raises(LeaseHeldError):
            lease.acquire("three", partial(_same, held))
        lease.check(other)
        lease.release(other)
        with pytest.raises(LeaseHeldError):
            lease.acquire("three", partial(_same, held))


def test_an_expired_lease_can_be_taken_over_not_before(lease: Lease, clock: ManualClock) -> None:
    first = lease.acquire("one")
    clock.advance(minutes=59, seconds=59)
    with pytest.raises(LeaseHeldError):
        lease.acquire("two")
    clock.advance(seconds=1)
    assert lease.acquire("two").fencing == 2
    with pytest.raises(LeaseHeldError):
        lease.renew(first)
    with pytest.raises(LeaseHeldError):
        lease.check(first)


def test_a_renewal_shortens_no_right_that_lives_longer_unless_it_is_to(
    lease: Lease, clock: ManualClock
) -> None:
    grant = lease.acquire("one")
    waits = Lease(lease._writer, timedelta(hours=12), clock)
    until = waits.renew(grant).expires_at
    clock.advance(minutes=30)
    assert lease.renew(grant).expires_at == until
    with pytest.raises(LeaseHeldError):
        lease.acquire("two")
    assert lease.renew(grant, shorten=True).expires_at == clock() + TTL
    clock.advance(hours=1)
    lease.acquire("two")


def test_an_expired_lease_that_nobody_took_can_be_renewed_but_does_not_stand_before(
    lease: Lease, clock: ManualClock
) -> None:
    grant = lease.acquire("one")
    clock.advance(hours=2)
    lease.check(grant)  # still nobody else's
    with pytest.raises(LeaseHeldError):
        lease.check(grant, clock())
    lease.renew(grant)
    lease.check(grant, clock())


def test_a_run_that_gave_its_lease_back_may_go_on_as_long_as_nobody_had_it_since(lease: Lease) -> None:
    grant = lease.acquire("one")
    lease.release(grant)
    assert lease.renew(grant).fencing == grant.fencing
    lease.release(grant)
    lease.release(lease.acquire("two"))
    with pytest.raises(LeaseHeldError):
        lease.renew(grant)


def test_of_many_at_once_one_wins(clock: ManualClock, lease: Lease) -> None:
    won: list[LeaseGrant] = []
    start = threading.Barrier(8)

    def try_it(number: int) -> None:
        start.wait()
        with suppress(LeaseHeldError):
            won.append(Lease(open_writer("memory://lease-test"), TTL, clock).acquire(f"holder {number}"))

    threads = [threading.Thread(target=try_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_of_many_that_take_over_one_wins(clock: ManualClock, lease: Lease) -> None:
    lease.acquire("dead")
    clock.advance(hours=2)
    test_of_many_at_once_one_wins(clock, lease)


class LosesAnswers:
    def __init__(self, inner: ObjectWriter) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        self._inner.put_if_absent(key, data)
        return self._inner.put_if_absent(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        self._inner.put_if_match(key, data, etag)
        return self._inner.put_if_match(key, data, etag)


def test_a_right_whose_answer_was_lost_is_the_askers_own(clock: ManualClock, lease: Lease) -> None:
    hurried: Any = LosesAnswers(open_writer("memory://lease-test"))
    unlucky = Lease(hurried, TTL, clock)
    grant = unlucky.acquire("one")
    assert (grant.holder, grant.fencing) == ("one", 1)
    clock.advance(minutes=50)
    assert unlucky.renew(grant, take_back=False).expires_at == clock() + TTL
    unlucky.release(grant)
    assert unlucky.acquire("two").fencing == 2
    with pytest.raises(LeaseHeldError):
        lease.acquire("one")


@pytest.mark.parametrize("deed", ["renewed", "given back"])
def test_a_renewal_by_another_driver_of_the_same_run_takes_no_right_away(
    clock: ManualClock, lease: Lease, deed: str
) -> None:
    grant = lease.acquire("one")
    times = [1]

    class Between:
        def __getattr__(self, name: str) -> Any:
            return getattr(open_writer("memory://lease-test"), name)

        def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
            if times[0]:
                times[0] -= 1
                clock.advance(seconds=1)
                lease.renew(grant)
            return open_writer("memory://lease-test").put_if_match(key, data, etag)

    between: Any = Between()
    mine = Lease(between, TTL, clock)
    if deed == "renewed":
        mine.renew(grant, take_back=False)
        lease.check(grant, clock())
    else:
        mine.release(grant)
        assert lease.acquire("two").fencing == 2
    times[0] = 1000
    with pytest.raises(UnavailableError if deed == "renewed" else LeaseHeldError):
        mine.renew(grant)


def test_an_object_that_is_no_lease_stops_everybody(lease: Lease) -> None:
    open_writer("memory://lease-test").put(LEASE, b"what")
    with pytest.raises(FormatError):
        lease.acquire("one")


def test_a_right_whose_lease_is_gone_is_not_renewed_and_nobody_minds_that_it_is_given_back(
    lease: Lease,
) -> None:
    grant = LeaseGrant("one", 1, datetime(2027, 1, 1, tzinfo=UTC))
    with pytest.raises(LeaseHeldError):
        lease.renew(grant)
    with pytest.raises(LeaseHeldError):
        lease.hold(grant, grant.expires_at)
    lease.release(grant)
    assert list(open_reader("memory://lease-test").list("")) == []


def test_a_lease_was_in_use_until_it_was_given_back_or_will_have_expired(
    lease: Lease, clock: ManualClock
) -> None:
    reader = open_reader("memory://lease-test")
    assert read_lease_end(reader, LEASE) is None
    grant = lease.acquire("one")
    assert read_lease_end(reader, LEASE) == grant.expires_at == clock() + TTL
    clock.advance(minutes=5)
    lease.release(grant)
    clock.advance(minutes=5)
    assert read_lease_end(reader, LEASE) == clock() - timedelta(minutes=5)


def test_a_step_at_work_does_not_take_back_what_was_given_back(clock: ManualClock, lease: Lease) -> None:
    grant = lease.acquire("one")
    lease.release(grant)
    with pytest.raises(LeaseHeldError):
        lease.renew(grant, take_back=False)
    assert lease.renew(grant).fencing == grant.fencing  # a step that begins does
    assert lease.renew(grant, take_back=False).fencing == grant.fencing


@pytest.mark.parametrize("wrong", [timedelta(days=-300), timedelta(days=300), timedelta(minutes=-1)])
def test_a_wrong_clock_of_a_machine_keeps_no_step_from_prolonging(
    lease: Lease, clock: ManualClock, wrong: timedelta
) -> None:
    grant = lease.acquire("one")
    clock.advance(minutes=30 if wrong != timedelta(minutes=-1) else 0)
    lease.hold(grant, clock() + wrong)
    clock.advance(minutes=59)
    with pytest.raises(LeaseHeldError):
        lease.acquire("two")


def test_a_step_holds_no_right_that_somebody_took_and_takes_back_one_that_was_given_back(
    lease: Lease, clock: ManualClock
) -> None:
    first = lease.acquire("one")
    lease.release(first)
    lease.hold(first, clock())
    lease.check(first)
    clock.advance(hours=2)
    lease.acquire("two")
    with pytest.raises(LeaseHeldError):
        lease.hold(first, clock() - timedelta(hours=2))


def test_a_right_ends_at_its_last_second_and_not_after_it(lease: Lease, clock: ManualClock) -> None:
    grant = lease.acquire("one")
    lease.check(grant, grant.expires_at - timedelta(microseconds=1))
    with pytest.raises(LeaseHeldError):
        lease.check(grant, grant.expires_at)


def test_a_kept_lease_is_renewed_in_the_background(clock: ManualClock) -> None:
    lease = Lease(open_writer("memory://lease-test"), timedelta(seconds=0.04), clock)
    grant = lease.acquire("one")
    before = open_reader("memory://lease-test").get(LEASE)
    clock.advance(minutes=1)
    asked = threading.Semaphore(0)
    with lease.kept(grant, lambda: asked.release() is None):
        for _ in range(2):  # the second one comes after a renewal
            assert asked.acquire(timeout=60)
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


UNTIL = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "plan.json"


def make_grant(stored_number: int, holder: str = "dag run") -> LeaseGrant:
    return LeaseGrant(holder, stored_number, UNTIL)


@pytest.fixture
def plan_writer() -> Iterator[ObjectWriter]:
    found = open_writer("memory://handover-test/r1")
    found.put(KEY, json.dumps({"run_id": "r1", "lease": to_json(make_grant(1))}).encode())
    yield found
    forget_memory_store("handover-test")


def stored_number(plan_writer: ObjectWriter) -> int:
    found: dict[str, Any] = json.loads(plan_writer.get(KEY))
    assert found["run_id"] == "r1"
    return int(found["lease"]["fencing"])


def test_a_later_lease_of_the_holder_is_handed_over(plan_writer: ObjectWriter) -> None:
    assert hand_over(plan_writer, KEY, make_grant(2))
    assert stored_number(plan_writer) == 2
    assert hand_over(plan_writer, KEY, make_grant(2)), "a second try says the same"


def test_a_lost_try_never_puts_its_lower_number_back(plan_writer: ObjectWriter) -> None:
    assert hand_over(plan_writer, KEY, make_grant(3))
    assert not hand_over(plan_writer, KEY, make_grant(2))
    assert stored_number(plan_writer) == 3


@pytest.mark.parametrize("moment", ["open_read", "put_if_match"])
def test_a_lost_try_loses_whenever_the_later_one_writes(plan_writer: ObjectWriter, moment: str) -> None:
    class Interrupted:
        uri = plan_writer.uri
        done = False

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                if name == moment and not self.done:
                    self.done = True
                    assert hand_over(plan_writer, KEY, make_grant(3))
                return getattr(plan_writer, name)(*arguments)

            return call

    assert not hand_over(Interrupted(), KEY, make_grant(2))  # type: ignore[arg-type]
    assert stored_number(plan_writer) == 3


def test_a_plan_of_another_holder_is_left_alone(plan_writer: ObjectWriter) -> None:
    assert not hand_over(plan_writer, KEY, make_grant(2, "another dag run"))
    assert stored_number(plan_writer) == 1


def test_a_put_whose_answer_was_lost_counts(plan_writer: ObjectWriter) -> None:
    class Deaf:
        uri = plan_writer.uri
        open_read = plan_writer.open_read

        def put_if_match(self, key: str, data: bytes, etag: str) -> None:
            plan_writer.put_if_match(key, data, etag)
            raise ConflictError("was there")

    assert hand_over(Deaf(), KEY, make_grant(2))  # type: ignore[arg-type]
    assert stored_number(plan_writer) == 2


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"lease": {}}', b'{"lease": 1}'])
def test_what_is_no_plan_is_left_alone(plan_writer: ObjectWriter, data: bytes) -> None:
    plan_writer.put(KEY, data)
    with pytest.raises(FormatError):
        hand_over(plan_writer, KEY, make_grant(2))
    assert plan_writer.get(KEY) == data
