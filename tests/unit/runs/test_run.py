"""A step of a run is done under its lease, made from what it reads, and spread with the try that it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import LeaseHeldError
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.run import PlannedRun
from dredge.runs.steps import PLAN, StepRecord, plan_digest
from dredge.runs.summary import StepOutput
from dredge.runs.tasks import LocalRunner, WorkerRun, partition_function
from dredge.runs.tries import newest_number
from dredge.storage import open_reader, open_writer
from tests.support.lakes import ManualClock
from tests.support.memory_store import forget_memory_store

TTL = timedelta(hours=1)


@dataclass(frozen=True)
class Plan:
    """What is planned."""

    lease: LeaseGrant
    run_id: str = "r1"
    store_uri: str = "memory://run-test/lake"


@dataclass(slots=True)
class Run(PlannedRun[Plan]):
    """A run of nothing in particular."""

    held: Lease | None = None

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        assert self.held is not None
        return self.held


class First(StepOutput):
    """A step that reads the plan."""

    STEP = "first"


class Second(StepOutput):
    """One that reads that."""

    STEP = "second"
    INPUTS = (First,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a task is told, and what it says."""

    text: str


@partition_function
def label(run: WorkerRun, config: Words, task: Words) -> Words:
    """Say whose files a task writes."""
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


def nothing(_: StepRecord) -> None:
    """Do it."""


def test_a_result_is_made_from_the_plan_or_from_what_its_step_read(run: Run) -> None:
    first = run.step(First, nothing)
    second = run.step(Second, nothing)
    alone = run.step(Second, nothing, inputs=())
    plan = {PLAN: plan_digest(run.folder)}
    assert [item.inputs for item in (first, second, alone)] == [plan, {"first": first.digest}, plan]


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


def test_tasks_write_for_the_try_that_spreads_them_and_none_is_no_step(run: Run) -> None:
    found: list[Words] = []
    tasks = [Words(text=text) for text in "ab"]

    def body(_: StepRecord) -> None:
        found.extend(run.spread(LocalRunner(), "first", label, Words(text="of"), tasks, "words"))

    run.step(First, body)
    assert [item.text for item in found] == [
        f"r1-t001 of {task.text} memory://run-test/lake" for task in tasks
    ]
    (outside,) = run.spread(LocalRunner(), "first", label, Words(text="of"), tasks[:1], "words")
    assert outside.text.startswith("r1 of a")
    nobody: Any = None
    assert run.spread(nobody, "first", label, Words(text="of"), [], "words") == []
