"""The orchestrator of collections: tasks in order, each try a separate process, retries like the DAG's.

It is Airflow's part, not Airflow: acquire_lease, plan, the steps, and in any case save_report and release_lease, by the
same entry points as the operators'. A try may die, or sleep until it is taken for lost and retried while it still runs.
Workers of a step are separate processes, too: they outlive their driver, and may be lost or started twice.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dredge.errors import (
    AwaitingApprovalError,
    ConfigError,
    ConflictError,
    DredgeError,
    LeaseHeldError,
    RefusedError,
    RejectedError,
    UnavailableError,
)
from dredge.gc import steps
from dredge.gc.config import GCConfig
from dredge.lakefs import LakeFSClient
from dredge.runs.failures import defect
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.runs.run import reopen
from dredge.storage.location import parse_uri
from dredge.storage.options import StorageOptions
from tests.simulation.clock import Clock
from tests.simulation.history import Simulation
from tests.simulation.noise import stable_hash
from tests.simulation.scheduler import Actor, Killed, Process
from tests.simulation.workers import Workers, wait_unless_lost

STEPS = (
    "slice_listing",
    "mark_uncommitted",
    "list_committed",
    "subtract",
    "check_limits",
    "bulk_delete",
    "verify",
)
TASKS = ("acquire_lease", "plan", *STEPS[:5], "approve", *STEPS[5:], "save_report", "release_lease")
SPREAD = frozenset(STEPS)
RETRIES = 3
REFUSALS = ("WitnessError", "BlockedError", "AlarmError")
LEASE_RETRIES = 10


@dataclass
class Said:
    decision: str  # approved or rejected
    shown: float  # time of the look at its subject
    acknowledged: float | None = None  # time of its certain record; None if unknown


@dataclass
class DagRun:
    """One DAG run of a collection."""

    name: str  # begins the names of all its processes
    config: dict[str, Any]  # of the run, as a user gives it
    run_uri: str = ""
    grant: LeaseGrant | None = None
    outcome: str = ""  # how it ended: of its report; "" when there is none
    errors: list[str] = field(default_factory=list)  # what tasks failed with
    ended: bool = False
    refusals: ClassVar[tuple[str, ...]] = REFUSALS

    @property
    def refused(self) -> bool:
        """Whether a witness, a block or an alarm stopped it: this needs a person."""
        return any(f"{kind}: " in text for text in self.errors for kind in self.refusals)


class Tries:
    """Makes tries of tasks, each in a new process of some machine."""

    simulation: Simulation  # of the history
    clocks: Sequence[Clock]  # of the machines that processes run on

    def process(self, name: str, role: str) -> Process:
        scheduler = self.simulation.scheduler
        number = stable_hash(self.simulation.seed, name, scheduler.now)
        return Process(name, scheduler, self.clocks[number % len(self.clocks)], role=role, may_fail=True)

    def begun(self, process: Process) -> None:
        """A process was begun."""

    @property
    def running(self) -> Process:
        return self.simulation.scheduler.process

    def attempt(self, name: str, task: str, work: Callable[[], Any]) -> tuple[BaseException | None, Any]:
        """Make a try; returns its error and its result."""
        scheduler, process = self.simulation.scheduler, self.process(name, task)

        def body() -> Any:
            try:
                return work()
            except DredgeError:
                raise
            except Exception as error:
                self.simulation.states[f"defect {type(error).__name__} in {task}"] += 1
                raise defect(f"task {task}", error) from error

        actor = scheduler.spawn(name, body, process)
        process.name = actor.name  # only the newest try may say what became of the task
        self.begun(process)
        if not wait_unless_lost(self.simulation, actor):
            return Killed("taken for lost"), None
        scheduler.note(f"{actor.name} has ended: {actor.error!r}")
        return actor.error, actor.result

    def _chain(self, run: Any, tasks: Sequence[str]) -> None:
        failed = False
        for task in tasks:
            if failed and task not in ("save_report", "release_lease"):
                continue
            error = self._task(run, task)
            if error is not None:
                run.errors.append(f"{task}: {type(error).__name__}: {error}")
                failed = True
        self._ended(run)

    def _task(self, run: Any, task: str) -> BaseException | None:
        raise NotImplementedError

    def _took(self, run: Any, task: str, result: Any) -> None:
        if task == "acquire_lease":
            run.grant = result
        elif task == "plan":
            run.run_uri = result
        elif task == "save_report":
            run.outcome = result

    def _ended(self, run: Any) -> None:
        run.ended = True
        self.simulation.states[f"run {run.outcome or 'failed'}"] += 1
        if run.errors:
            self.simulation.states["stopped by " + ":".join(run.errors[0].split(":")[:2])] += 1
        self.simulation.scheduler.note(f"{run.name} has ended: {run.outcome} {run.errors}")


@dataclass
class Orchestrated(DagRun):
    ended_at: float = 0.0  # when; never, where a process of it was lost, which may live on
    lost: bool = False  # whether one was
    by_person: bool = False  # whether no orchestrator does it
    said: list[Said] = field(default_factory=list)  # what people answered it
    waiting: Actor | None = None  # who waits for an answer in Airflow
    response: tuple[steps.Decision, str] | None = None  # that answer: decision and user
    question: tuple[str, float] | None = None  # the request in Airflow: its digest and its time
    patience: float = 0.0  # how long an answer is waited for there, in seconds
    marked_failed: bool = False  # whether the running task was marked as failed
    begun: dict[str, list[float]] = field(default_factory=dict)  # when tasks began, each by all of its tries
    clock: Clock | None = None  # of the machine that planned it

    @property
    def folder(self) -> str:
        """Key of its folder in the bucket; "" before it exists."""
        return parse_uri(self.run_uri, StorageOptions()).root if self.run_uri else ""

    def began(self, task: str, before: float) -> float:
        """Time of a task's last beginning before some time; never is long ago."""
        return max((at for at in self.begun.get(task, ()) if at <= before), default=float("-inf"))


@dataclass
class Orchestrator(Tries):
    simulation: Simulation  # of the history
    make_client: Callable[[], LakeFSClient]  # a collector's client of the servers
    clocks: Sequence[Clock]  # of the machines that processes run on
    workers: Workers  # spread the tasks
    runs: dict[str, Orchestrated] = field(default_factory=dict)  # all that were started, by name

    def start(self, name: str, config: dict[str, Any]) -> Orchestrated:
        """Do a DAG run to its end (called by an actor of an immortal process)."""
        run = self.runs[name] = Orchestrated(name, config)
        self._chain(run, TASKS)
        return run

    def by_person(self, name: str, config: dict[str, Any]) -> Orchestrated:
        """Do a run like `dredge gc run`: in one process, with its lease, and without retries."""
        run = self.runs[name] = Orchestrated(name, config, by_person=True)
        process = self.process(f"{name} person", "plan")
        run.clock = process.clock
        self._do(run, process, lambda: self._collect(run, process))
        return run

    def resume(self, name: str) -> None:
        """Continue a person's run, like `dredge gc resume`."""
        run = self.runs.get(name)
        if run is None or not run.ended or not run.by_person or not run.run_uri:
            return
        run.ended, run.errors, run.outcome = False, [], ""
        process = self.process(f"{name} person", "plan")
        self._do(run, process, lambda: self._resume(run, process))

    def _do(self, run: Orchestrated, process: Process, body: Callable[[], object]) -> None:
        actor = self.simulation.scheduler.spawn(process.name, body, process)
        run.lost |= not wait_unless_lost(self.simulation, actor)
        self.refuse_unforeseen(process.role, actor)
        if actor.error is not None:
            run.errors.append(f"{process.role}: {type(actor.error).__name__}: {actor.error}")
        self._ended(run)

    def clear(self, name: str, task: str) -> None:
        """Repeat a DAG run from a task on, like a cleared run."""
        run = self.runs.get(name)
        if run is None or not run.ended or run.by_person:
            return
        run.ended, run.errors, run.outcome, run.marked_failed = False, [], "", False
        first = TASKS.index(task)
        if first <= 1:
            run.run_uri, run.said = "", []
        self._chain(run, ("acquire_lease", *[found for found in TASKS[1:] if TASKS.index(found) >= first]))

    def redo(self, name: str, task: str) -> None:
        """Repeat one task, like a single cleared task, at any state of the others."""
        run = self.runs.get(name)
        if run is not None and run.run_uri and not run.by_person:
            self._retried(run, task)

    def mark_failed(self, name: str) -> None:
        """Mark the running task of a run as failed; its process may continue."""
        run = self.runs.get(name)
        if run is not None and not run.ended:
            run.marked_failed = True

    def _ended(self, run: Orchestrated) -> None:
        run.outcome = run.outcome or ("failed" if run.errors else "success")
        run.ended_at = float("inf") if run.lost else self.simulation.scheduler.now
        super()._ended(run)

    def _task(self, run: Orchestrated, task: str) -> BaseException | None:
        return self._approve(run) if task == "approve" else self._retried(run, task)

    def _retried(self, run: Orchestrated, task: str) -> BaseException | None:
        tries = (LEASE_RETRIES if task == "acquire_lease" else RETRIES) + 1
        error: BaseException | None = None
        for _ in range(tries):
            error = self._try(run, task)
            if error is None or not is_retried(error):
                return error
            if run.marked_failed and task not in ("save_report", "release_lease"):
                return error
            minutes = 2 if isinstance(error, UnavailableError | ConflictError) else 1
            self.simulation.scheduler.wait(60.0 * minutes)
        return error

    def _approve(self, run: Orchestrated) -> BaseException | None:
        error: BaseException | None = None
        for _ in range(RETRIES + 1):
            error = self._retried(run, "approve")
            if not isinstance(error, AwaitingApprovalError):
                return error
            self.simulation.states["run awaits approval"] += 1
            run.waiting, question = self.simulation.scheduler.current, run.question
            self.simulation.scheduler.park(run.patience)
            run.waiting, run.question = (
                None,
                question,
            )  # the request displayed here, even if a newer one exists
            error = self._try(run, "answer")
            run.response = None
            if error is None or not is_retried(error):
                return error
        return error

    def _answer(self, opened: steps.Run, run: Orchestrated) -> None:
        if run.response is not None:
            self.say(opened, run, *run.response, steps.AIRFLOW, run.question)
        else:
            try:
                steps.approve(opened)
            except AwaitingApprovalError:
                steps.answer(opened, "rejected", "", steps.TIME_OUT)
            except RejectedError:
                pass
        steps.approve(opened)

    def say(
        self,
        opened: steps.Run,
        run: Orchestrated,
        decision: steps.Decision,
        by: str,
        through: str,
        question: tuple[str, float] | None = None,
    ) -> None:
        """Answer a run (called in a separate process): a displayed request or the present one."""
        digest, shown = question or (None, self.simulation.scheduler.now)
        said = Said(decision, shown)
        run.said.append(said)
        steps.answer(opened, decision, by, through, digest)
        said.acknowledged = self.simulation.scheduler.now
        self.simulation.states[f"run was {decision}"] += 1

    def _try(self, run: Orchestrated, task: str) -> BaseException | None:
        scheduler = self.simulation.scheduler
        name = f"{run.name} {task}"
        process = self.process(name, task)
        run.begun.setdefault(task, []).append(scheduler.now)
        if task == "plan":
            run.clock = process.clock
        actor = scheduler.spawn(name, lambda: self._operator(run, task), process)
        process.name = actor.name
        ended = wait_unless_lost(self.simulation, actor)
        if not ended:
            run.lost = True
            return Killed("taken for lost")
        if actor.error is None:
            self._took(run, task, actor.result)
        self.refuse_unforeseen(task, actor)
        return actor.error

    def refuse_unforeseen(self, task: str, actor: Actor) -> None:
        """Report errors not foreseen by the product."""
        error = actor.error
        if isinstance(error, Exception) and not isinstance(error, DredgeError):
            places = "".join(traceback.format_tb(error.__traceback__)[-4:])
            self.simulation.violate("defect", f"{task} ends with {error!r}\n{places}")

    def _collect(self, run: Orchestrated, process: Process) -> None:
        client = self.make_client()
        plan = steps.plan_run(from_json(GCConfig, run.config), None, client, None, process.clock)
        run.run_uri = plan.run_uri
        self._to_its_end(run, process, steps.Run.open(plan.run_uri, None, client, process.clock))

    def _resume(self, run: Orchestrated, process: Process) -> None:
        opened = reopen(lambda: steps.Run.open(run.run_uri, None, self.make_client(), process.clock))
        self._to_its_end(run, process, opened)

    def _to_its_end(self, run: Orchestrated, process: Process, opened: steps.Run) -> None:
        try:
            for step in TASKS[2:-2]:
                process.role = step
                run.begun.setdefault(step, []).append(self.simulation.scheduler.now)
                if step == "approve":
                    steps.approve(opened)
                else:
                    getattr(steps, step)(opened, self.workers)
                self._took(run, step, None)
        finally:
            process.role = "save_report"
            try:
                run.outcome = steps.save_report(opened).details["outcome"]
            finally:
                steps.release_lease(opened)

    def _operator(self, run: Orchestrated, task: str) -> Any:
        client = self.make_client()
        if task == "acquire_lease":
            return self._acquire(run, client)
        if task == "plan":
            config = from_json(GCConfig, run.config)
            return steps.plan_run(config, run.grant, client, None, self.running.clock).run_uri
        if task == "release_lease":
            if run.grant is None:
                raise ConfigError("no lease was taken in this run")
            return steps.release_grant(from_json(GCConfig, run.config), run.grant, client)
        if not run.run_uri:
            raise RefusedError("the run came to no plan")
        opened = steps.Run.open(run.run_uri, None, client, self.running.clock)
        if task == "save_report":
            summary = steps.save_report(opened)
            steps.release_lease(opened)
            return summary.details["outcome"]
        if task == "approve":
            return self._ask(opened, run)
        if task == "answer":
            return self._answer(opened, run)
        step, local = getattr(steps, task), {"mark_uncommitted": {"alone": True}, "check_limits": {}}
        return step(opened, **local[task]) if task in local else step(opened, self.workers)

    def _ask(self, opened: steps.Run, run: Orchestrated) -> None:
        try:
            steps.approve(opened)
        except AwaitingApprovalError:
            shown = self.simulation.scheduler.now
            question = steps.put_question(opened)
            run.question, run.patience = (question.digest, shown), question.wait.total_seconds()
            raise

    def _acquire(self, run: Orchestrated, client: LakeFSClient) -> LeaseGrant:
        config = from_json(GCConfig, run.config)
        scheduler = self.simulation.scheduler
        for _ in range(600):
            try:
                grant = steps.acquire_lease(config, f"dag {run.name}", client)
            except LeaseHeldError:
                scheduler.wait(60.0)
                continue
            if run.run_uri:
                steps.resume_run(steps.Run.open(run.run_uri, None, client), config.repository, grant)
            return grant
        raise UnavailableError("the lease was held for too long")


def is_retried(error: BaseException) -> bool:
    """Whether the DAG retries a task after this failure (operators/failures.py)."""
    if isinstance(error, Killed):
        return True
    if isinstance(error, DredgeError):
        return isinstance(error, UnavailableError | ConflictError) or type(error).__name__ == "DefectError"
    return False
