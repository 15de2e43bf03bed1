"""The orchestrator of collections: tasks in order, each try a process of its own, retries as the DAG has them.

It is Airflow's part, not Airflow: acquire_lease, plan, the steps, save_report and release_lease whatever happens, by
the same entry points as the operators call. A try may die, or sleep so long that it is taken for lost and tried again
while it lives on. Workers of a step are processes of their own, too: they outlive their driver, and may be lost or
started twice.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import (
    ConfigError,
    ConflictError,
    DredgeError,
    LeaseHeldError,
    RefusedError,
    UnavailableError,
)
from dredge.gc import steps
from dredge.gc.config import GCConfig
from dredge.lakefs import LakeFSClient
from dredge.runs.lease import LeaseGrant
from dredge.runs.tasks import Json, PartitionFunction
from tests.simulation.clock import Clock
from tests.simulation.history import Simulation
from tests.simulation.noise import mix, stable_hash, unit
from tests.simulation.scheduler import Actor, Killed, Process

STEPS = (
    "slice_listing",
    "mark_uncommitted",
    "list_committed",
    "subtract",
    "check_limits",
    "bulk_delete",
    "verify",
)
TASKS = ("acquire_lease", "plan", *STEPS, "save_report", "release_lease")
SPREAD = frozenset(STEPS)
RETRIES = 3
LEASE_RETRIES = 10
LOST_SECONDS = 300.0
"""A process that was not heard of for as long is taken for lost."""
TASK_TRIES = 4


@dataclass
class Workers:
    """A task runner whose workers are processes of their own.

    Attributes:
        simulation: of the history.
        clocks: of the machines that they run on.
        twice: share of tasks that are started twice.
    """

    simulation: Simulation
    clocks: Sequence[Clock]
    at_once: int = 2
    twice: float = 0.0

    @property
    def default_parallelism(self) -> int:
        return self.at_once

    def run(self, name: str, fn: PartitionFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        scheduler = self.simulation.scheduler
        assert scheduler.current is not None
        driver = scheduler.current.process
        found: list[Json] = []
        for first in range(0, len(tasks), self.at_once):
            group = tasks[first : first + self.at_once]
            starts = [
                self._start(driver, first + number, 1, fn, config, task) for number, task in enumerate(group)
            ]
            for number, (actor, task) in enumerate(zip(starts, group, strict=True)):
                found.append(self._result(driver, first + number, actor, fn, config, task))
        return found

    def _start(
        self, driver: Process, number: int, attempt: int, fn: PartitionFunction, config: Json, task: Json
    ) -> Actor:
        scheduler = self.simulation.scheduler
        name = f"{driver.name} task {number} try {attempt}"
        draw = stable_hash(self.simulation.seed, name)
        clock = self.clocks[draw % len(self.clocks)]

        def body() -> Json:
            # What travels to a worker and back is text.
            answer = fn(json.loads(json.dumps(config)), json.loads(json.dumps(task)))
            found: Json = json.loads(json.dumps(answer))
            return found

        process = Process(name, scheduler, clock, driver.role, driver.begun, may_fail=True)
        actor = scheduler.spawn(name, body, process)
        if unit(mix(draw, 2)) < self.twice:
            again = Process(f"{name} again", scheduler, clock, driver.role, driver.begun, may_fail=True)
            scheduler.spawn(again.name, body, again)
        return actor

    def _result(
        self, driver: Process, number: int, actor: Actor, fn: PartitionFunction, config: Json, task: Json
    ) -> Json:
        for attempt in range(2, TASK_TRIES + 2):
            ended = wait_unless_lost(self.simulation, actor)
            if ended and actor.error is None:
                found: Json = actor.result  # type: ignore[assignment]
                return found
            retried = not ended or isinstance(actor.error, Killed | UnavailableError)
            if not retried or attempt > TASK_TRIES:
                break
            actor = self._start(driver, number, attempt, fn, config, task)
        if isinstance(actor.error, Exception):
            raise actor.error
        raise UnavailableError(f"task {number} was lost {TASK_TRIES} times")


def wait_unless_lost(simulation: Simulation, actor: Actor) -> bool:
    """Wait for the end of a process, or until it is taken for lost; says whether it has ended."""
    scheduler = simulation.scheduler
    while not actor.ended:
        scheduler.join(actor, 60.0)
        if not actor.ended and actor.process.paused_until > scheduler.now + LOST_SECONDS:
            return False
    return True


@dataclass
class Orchestrated:
    """One DAG run.

    Attributes:
        name: begins the names of all its processes.
        config: of the run, as a user gives it.
        outcome: how it ended: of its report, or the first error's kind.
        by_person: whether no orchestrator does it.
    """

    name: str
    config: dict[str, Any]
    run_uri: str = ""
    grant: LeaseGrant | None = None
    outcome: str = ""
    errors: list[str] = field(default_factory=list)
    ended: bool = False
    by_person: bool = False


@dataclass
class Orchestrator:
    """Starts DAG runs.

    Attributes:
        simulation: of the history.
        make_client: a collector's client of the servers.
        clocks: of the machines that processes run on.
        workers: spread the tasks.
        runs: all that were started, by name.
    """

    simulation: Simulation
    make_client: Callable[[], LakeFSClient]
    clocks: Sequence[Clock]
    workers: Workers
    runs: dict[str, Orchestrated] = field(default_factory=dict)

    def start(self, name: str, config: dict[str, Any]) -> Orchestrated:
        """Do a DAG run to its end (called by an actor of a process that never dies)."""
        run = self.runs[name] = Orchestrated(name, config)
        self._chain(run, TASKS)
        return run

    def by_person(self, name: str, config: dict[str, Any]) -> Orchestrated:
        """Do a run as `dredge gc run` does it: in one process, with a lease of its own, and nobody tries again."""
        run = self.runs[name] = Orchestrated(name, config, by_person=True)
        process = self._process(f"{name} person", "plan")
        actor = self.simulation.scheduler.spawn(process.name, lambda: self._collect(run, process), process)
        wait_unless_lost(self.simulation, actor)
        self._refuse_unforeseen(process.role, actor)
        if actor.error is not None:
            run.errors.append(f"{process.role}: {type(actor.error).__name__}: {actor.error}")
        self._ended(run)
        return run

    def clear(self, name: str, task: str) -> None:
        """Do a DAG run again from a task on, as somebody does who clears it."""
        run = self.runs.get(name)
        if run is None or not run.ended or run.by_person:
            return
        run.ended, run.errors, run.outcome = False, [], ""
        first = TASKS.index(task)
        if first <= 1:
            run.run_uri = ""
        self._chain(run, ("acquire_lease", *[found for found in TASKS[1:] if TASKS.index(found) >= first]))

    def _chain(self, run: Orchestrated, tasks: Sequence[str]) -> None:
        failed = False
        for task in tasks:
            if failed and task not in ("save_report", "release_lease"):
                continue
            error = self._task(run, task)
            if error is not None:
                run.errors.append(f"{task}: {type(error).__name__}: {error}")
                failed = True
        self._ended(run)

    def _ended(self, run: Orchestrated) -> None:
        run.outcome = run.outcome or ("failed" if run.errors else "success")
        run.ended = True
        self.simulation.states[f"run {run.outcome}"] += 1
        if run.errors:
            self.simulation.states["stopped by " + ":".join(run.errors[0].split(":")[:2])] += 1
        self.simulation.scheduler.note(f"{run.name} has ended: {run.outcome} {run.errors}")

    def _task(self, run: Orchestrated, task: str) -> BaseException | None:
        """Do one task with its retries; gives the error that it failed with."""
        tries = (LEASE_RETRIES if task == "acquire_lease" else RETRIES) + 1
        error: BaseException | None = None
        for _ in range(tries):
            error = self._try(run, task)
            if error is None or not is_retried(error):
                return error
            minutes = 2 if isinstance(error, UnavailableError | ConflictError) else 1
            self.simulation.scheduler.wait(60.0 * minutes)
        return error

    def _try(self, run: Orchestrated, task: str) -> BaseException | None:
        scheduler = self.simulation.scheduler
        name = f"{run.name} {task}"
        process = self._process(name, task)
        # Only the newest try may say what became of the task.
        actor = scheduler.spawn(name, lambda: self._operator(run, task), process)
        process.name = actor.name
        coverage = self.simulation.doors.coverage
        coverage.begin(task)
        try:
            ended = wait_unless_lost(self.simulation, actor)
        finally:
            coverage.end(task)
        if not ended:
            return Killed("taken for lost")
        if actor.error is None:
            self._took(run, task, actor.result)
        self._refuse_unforeseen(task, actor)
        return actor.error

    def _took(self, run: Orchestrated, task: str, result: Any) -> None:
        """Note what a task has left for later ones."""
        if task == "acquire_lease":
            run.grant = result
        elif task == "plan":
            run.run_uri = result
        elif task == "save_report":
            run.outcome = result

    def _process(self, name: str, role: str) -> Process:
        """A process on some machine."""
        scheduler = self.simulation.scheduler
        number = stable_hash(self.simulation.seed, name, scheduler.now)
        clock = self.clocks[number % len(self.clocks)]
        return Process(name, scheduler, clock, role=role, may_fail=True)

    def _refuse_unforeseen(self, task: str, actor: Actor) -> None:
        error = actor.error
        if isinstance(error, Exception) and not isinstance(error, DredgeError):
            places = "".join(traceback.format_tb(error.__traceback__)[-4:])
            self.simulation.violate("defect", f"{task} ends with {error!r}\n{places}")

    def _collect(self, run: Orchestrated, process: Process) -> None:
        """What `dredge gc run` does."""
        coverage = self.simulation.doors.coverage
        client, clock = self.make_client(), process.clock
        try:
            plan = steps.plan_run(GCConfig.from_json(run.config), None, client, None, clock)
            run.run_uri = plan.run_uri
            opened = steps.Run.open(plan.run_uri, None, client, clock)
            try:
                for step in STEPS:
                    process.role = step
                    coverage.begin(step)
                    getattr(steps, step)(opened, self.workers)
                    coverage.end(step)
            finally:
                process.role = "save_report"
                run.outcome = steps.save_report(opened).details["outcome"]
                steps.release_lease(opened)
        finally:
            coverage.end(process.role)

    def _operator(self, run: Orchestrated, task: str) -> Any:
        client = self.make_client()
        if task == "acquire_lease":
            return self._acquire(run, client)
        if task == "plan":
            config = GCConfig.from_json(run.config)
            return steps.plan_run(config, run.grant, client, None, self._clock()).run_uri
        if task == "release_lease":
            if run.grant is None:
                raise ConfigError("no lease was taken in this run")
            return steps.release_grant(GCConfig.from_json(run.config), run.grant, client)
        if not run.run_uri:
            raise RefusedError("the run came to no plan")
        opened = steps.Run.open(run.run_uri, None, client, self._clock())
        if task == "save_report":
            summary = steps.save_report(opened)
            steps.release_lease(opened)
            return summary.details["outcome"]
        step = getattr(steps, task)
        return step(opened) if task in ("mark_uncommitted", "check_limits") else step(opened, self.workers)

    def _acquire(self, run: Orchestrated, client: LakeFSClient) -> LeaseGrant:
        config = GCConfig.from_json(run.config)
        scheduler = self.simulation.scheduler
        for _ in range(600):
            try:
                grant = steps.acquire_lease(config, f"dag {run.name}", client)
            except LeaseHeldError:
                scheduler.wait(60.0)
                continue
            if run.run_uri:
                steps.resume_run(run.run_uri, config.repository, grant)
            return grant
        raise UnavailableError("the lease was held for too long")

    def _clock(self) -> Clock:
        current = self.simulation.scheduler.current
        assert current is not None
        return current.process.clock


def is_retried(error: BaseException) -> bool:
    """Whether the DAG tries a task again that failed so (operators/retry.py)."""
    if isinstance(error, Killed):
        return True
    if isinstance(error, DredgeError):
        return isinstance(error, UnavailableError | ConflictError) or type(error).__name__ == "DefectError"
    return False
