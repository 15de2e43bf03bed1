"""Two runs of one repository: one of them works, and the other one is fenced off."""

import pytest

from dredge.errors import ConfigError, LeaseHeldError
from dredge.gc.config import GCConfig
from dredge.gc.planning import acquire_lease, plan_run
from dredge.gc.save_report.advance_state import advance_state
from dredge.gc.steps import bulk_delete, subtract, verify
from dredge.runs import run as runs
from dredge.runs.run import release_lease
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_deleter
from tests.support.gc import busy_world, deleting


def test_two_runs_at_once_are_one_run_and_one_refusal() -> None:
    world, _, _ = busy_world()
    first = world.plan()
    with pytest.raises(LeaseHeldError):
        world.plan()
    release_lease(first)
    world.age(seconds=1)
    release_lease(world.plan())


def test_a_run_that_comes_to_no_plan_locks_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, _ = busy_world()

    class ReadOnly:
        def put_if_absent(self, key: str, data: bytes) -> str | None:
            raise ConfigError("AccessDenied: nothing was written")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "open_writer", lambda _uri, _options: ReadOnly())
        with pytest.raises(ConfigError, match="AccessDenied"):
            world.plan()
    world.age(seconds=1)
    release_lease(world.plan())


def test_a_lease_whose_holder_died_is_taken_over_after_its_expiry_and_the_old_holder_is_fenced_off() -> None:
    world, kept, gone = busy_world()
    late = world.marked()
    world.age(hours=1, seconds=1)
    new = world.plan()
    assert new.plan.lease.fencing == late.plan.lease.fencing + 1
    with pytest.raises(LeaseHeldError, match="lost"):
        bulk_delete(late, LocalRunner())
    open_deleter(late.folder.uri).delete(["subtract/_SUCCESS.json"])
    with pytest.raises(LeaseHeldError, match="lost"):
        subtract(late, LocalRunner())
    assert kept | gone <= world.data()
    world.run(new)
    assert world.data() == kept


def test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request() -> None:
    world, kept, gone = busy_world(safety={"gate_every_seconds": 0})
    context = world.plan()

    def overtake(number: int, _keys: object) -> None:
        if number == 1:
            context.state.put(
                "lease.json",
                b'{"holder": "another", "fencing": 99, "expires_at": "2100-01-01T00:00:00+00:00"}',
            )

    with deleting(before=overtake) as requests, pytest.raises(LeaseHeldError):
        world.run(context)
    assert len(requests.made) == 1
    assert len(world.data() - kept) == len(gone)  # that request, too, is held back


def test_a_holder_that_asks_again_fences_off_its_earlier_attempt() -> None:
    world, _, _ = busy_world()
    config = GCConfig(repository="lake", dry_run=False)
    first = acquire_lease(config, "dag run 1", world.client)
    second = acquire_lease(config, "dag run 1", world.client)
    assert second.fencing == first.fencing + 1
    with pytest.raises(LeaseHeldError):
        plan_run(config, first, world.client, None, world.lake.clock)
    plan_run(config, second, world.client, None, world.lake.clock)


def test_a_holder_that_slept_while_another_run_came_and_went_makes_no_further_request() -> None:
    """Between two of its requests the lease expires, a second run does everything, and new data comes."""
    world, kept, gone = busy_world(safety={"gate_every_seconds": 0})
    late = world.plan()
    seen: list[set[str]] = []

    def oversleep(number: int, _keys: object) -> None:
        if number != 1 or seen:
            return
        seen.append(set())  # the second run's own requests pass
        world.age(hours=1, seconds=1)
        second = world.collected()
        release_lease(second)
        assert second.plan.lease.fencing == late.plan.lease.fencing + 1
        assert world.data() == kept
        seen[0] = {world.upload("after", b"after"), *world.data()}

    with deleting(before=oversleep) as requests, pytest.raises(LeaseHeldError, match="lost"):
        world.run(late)
    assert world.data() == seen[0] >= kept
    of_the_late_one = [keys for keys in requests.made if not set(keys) <= gone]
    assert of_the_late_one == []


def test_a_run_that_slept_before_its_end_does_not_move_the_state_on() -> None:
    world, _, _ = busy_world()
    late = world.marked()
    bulk_delete(late, LocalRunner())
    verify(late, LocalRunner())
    world.age(hours=1, seconds=1)
    second = world.collected()
    release_lease(second)
    with pytest.raises(LeaseHeldError, match="lost"):
        advance_state(late)
