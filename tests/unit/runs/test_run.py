"""A step of a run is done under its lease, made from what it reads, and spread with the try that it is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.payload import StepOutput, to_json
from dredge.runs.run import CollectionRun, StepRecord, check_resumable, is_local, local_holder, resume_local
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.runs.tries import newest_number
from dredge.runs.versions import POINTER
from dredge.storage import open_deleter, open_reader, open_writer
from tests.support.lakes import ManualClock
from tests.support.memory_store import forget_memory_store

TTL = timedelta(hours=1)


@dataclass(frozen=True)
class Plan:
    lease: LeaseGrant
    run_id: str = "r1"
    store_uri: str = "memory://run-test/lake"
    state_etag: str | None = None


@dataclass(slots=True)
class Run(CollectionRun[Plan]):
    held: Lease | None = None

    @property
    def lease(self) -> Lease:
        assert self.held is not None
        return self.held


class First(StepOutput):
    STEP = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    text: str


@partition_function
def label(run: WorkerRun, config: Words, task: Words) -> Words:
    return Words(text=f"{run.folder.label} {config.text} {task.text} {run.stores.store_uri}")


@pytest.fixture
def run() -> Iterator[Run]:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    state, reader = open_writer("memory://run-test/state"), open_reader("memory://run-test/lake")
    lease = Lease(state, TTL, clock)
    folder = RunFolder(open_writer("memory://run-test/runs/r1"), "r1")
    folder.write_json("plan.json", {"run_id": "r1"})
    etag = state.put(POINTER, b'{"run_id": "r0"}')
    yield Run(Plan(lease.acquire("r1"), state_etag=etag), folder, reader, state, clock, held=lease)
    forget_memory_store("run-test")


def nothing(_: StepRecord) -> None: ...


def test_a_step_claims_nothing_once_the_lease_is_somebody_elses(run: Run) -> None:
    run.lease.release(run.plan.lease)
    run.lease.acquire("somebody else")
    with pytest.raises(LeaseHeldError):
        run.step(First, nothing)
    assert newest_number(run.folder.writer, "first") == 0


def test_a_step_begins_with_a_lease_that_lives(run: Run) -> None:
    clock: Any = run.clock
    clock.advance(minutes=50)
    run.step(First, nothing)
    clock.advance(minutes=50)
    with pytest.raises(LeaseHeldError):
        run.lease.acquire("somebody else")


@pytest.fixture
def local_run(run: Run) -> Run:
    run.lease.release(run.plan.lease)
    grant = run.lease.acquire(local_holder("r1"))
    run.lease.release(grant)
    run.plan = replace(run.plan, lease=grant)
    run.folder.write_json("plan.json", {"run_id": "r1", "lease": to_json(grant)})
    return run


def is_free(lease: Lease) -> bool:
    try:
        lease.release(lease.acquire("somebody else"))
    except LeaseHeldError:
        return False
    return True


def test_a_run_goes_on_under_a_new_lease_that_its_plan_has(local_run: Run) -> None:
    check_resumable(local_run)
    resume_local(local_run)
    assert local_run.folder.read_json("plan.json")["lease"]["fencing"] == local_run.plan.lease.fencing + 1
    assert not is_free(local_run.lease)


def test_a_run_goes_on_after_it_has_advanced_the_state_itself(local_run: Run) -> None:
    local_run.state.put(POINTER, b'{"run_id": "r1"}')
    resume_local(local_run)
    assert not is_free(local_run.lease)


@pytest.mark.parametrize("pointer", [b'{"run_id": "r2"}', b"damaged", b"[]"])
def test_a_run_does_not_go_on_from_another_state_and_gives_the_lease_back(
    local_run: Run, pointer: bytes
) -> None:
    local_run.state.put(POINTER, pointer)
    with pytest.raises(RefusedError):
        resume_local(local_run)
    assert is_free(local_run.lease)


def test_a_run_does_not_go_on_where_the_state_was_removed(local_run: Run) -> None:
    local_run.plan = replace(local_run.plan, state_etag="of a removed state")
    open_deleter("memory://run-test/state").delete([POINTER])
    with pytest.raises(RefusedError):
        resume_local(local_run)


def test_a_run_that_is_resumed_elsewhere_is_left_to_it(local_run: Run) -> None:
    later = structs.replace(local_run.plan.lease, fencing=99)
    local_run.folder.write_json("plan.json", {"run_id": "r1", "lease": to_json(later)})
    with pytest.raises(RefusedError):
        resume_local(local_run)
    assert is_free(local_run.lease)


def test_a_run_of_an_orchestrator_is_left_to_it(local_run: Run) -> None:
    assert is_local(local_run)
    local_run.plan = Plan(local_run.lease.acquire("lakefs_gc manual__1"))
    assert not is_local(local_run)
    with pytest.raises(ConfigError):
        resume_local(local_run)
    local_run.lease.check(local_run.plan.lease)
