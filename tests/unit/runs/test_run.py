"""A step of a run is done under its lease, made from what it reads, and spread with the try that it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.run import PlannedRun, is_local, local_holder, resume_local
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepOutput
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.runs.tries import newest_number
from dredge.runs.versions import Current
from dredge.storage import open_reader, open_writer
from tests.support.lakes import ManualClock
from tests.support.memory_store import forget_memory_store
from tests.support.versions import Told

TTL = timedelta(hours=1)


@dataclass(frozen=True)
class Plan:
    lease: LeaseGrant
    run_id: str = "r1"
    store_uri: str = "memory://run-test/lake"


@dataclass(slots=True)
class Run(PlannedRun[Plan]):
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
    yield Run(Plan(lease.acquire("r1")), folder, reader, state, clock, held=lease)
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


OLD, NEW = Current(etag="old"), Current(etag="new", state=Told("r2"))


@pytest.fixture
def lease() -> Iterator[Lease]:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    yield Lease(open_writer("memory://resuming-test"), timedelta(hours=1), clock)
    forget_memory_store("resuming-test")


@pytest.fixture
def local_run(lease: Lease) -> Any:
    grant = lease.acquire(local_holder("r1"))
    lease.release(grant)
    plan = SimpleNamespace(run_id="r1", lease=grant)
    return SimpleNamespace(plan=plan, lease=lease, folder=SimpleNamespace(uri="memory://resuming-test/r1"))


def again(local_run: Any, current: Current[Told], goes_on: bool = True) -> list[LeaseGrant]:
    given: list[LeaseGrant] = []

    def resume(grant: LeaseGrant) -> bool:
        given.append(grant)
        return goes_on

    resume_local(local_run, "old", lambda: current, resume)
    return given


def is_free(lease: Lease) -> bool:
    try:
        lease.release(lease.acquire("somebody else"))
    except LeaseHeldError:
        return False
    return True


@pytest.mark.parametrize("current", [NEW, Current(etag="new"), Current()])
def test_a_run_does_not_go_on_from_another_state_and_gives_the_lease_back(
    local_run: Any, lease: Lease, current: Current[Told]
) -> None:
    with pytest.raises(RefusedError):
        again(local_run, current)
    assert is_free(lease)


def test_a_run_that_is_resumed_elsewhere_is_left_to_it(local_run: Any, lease: Lease) -> None:
    with pytest.raises(RefusedError):
        again(local_run, OLD, goes_on=False)
    assert is_free(lease)


def test_a_run_of_an_orchestrator_is_left_to_it(local_run: Any, lease: Lease) -> None:
    assert is_local(local_run.plan)
    local_run.plan.lease = lease.acquire("lakefs_gc manual__1")
    assert not is_local(local_run.plan)
    with pytest.raises(ConfigError):
        again(local_run, OLD)
    lease.check(local_run.plan.lease)
