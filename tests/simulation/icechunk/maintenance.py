"""Runs on an Icechunk repository: collections step by step like the DAG's, and expirations in place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dredge.errors import ConfigError, ConflictError, RefusedError, WitnessError
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.witness.judging import forget_lost
from dredge.icechunk.history import Ref
from dredge.icechunk.maintenance import make_lease, open_state, right_to_work
from dredge.runs.payload import from_json
from dredge.storage import open_writer
from tests.simulation.clock import Clock, instant
from tests.simulation.history import Simulation
from tests.simulation.icechunk.oracle import Oracle, micros_before
from tests.simulation.icechunk.writers import URI, Writers
from tests.simulation.orchestrator import REFUSALS, DagRun, Tries, is_retried
from tests.simulation.scheduler import Process
from tests.simulation.workers import Workers
from tests.support.icechunk_expiring import expire_in_place

STEPS = ("mark", "list_candidates", "check_limits", "bulk_delete", "verify", "save_report", "expire")
TASKS = ("acquire_lease", "plan", "collect", "save_report", "release_lease")
RETRIES = 3


class Run(DagRun):
    refusals = (*REFUSALS, "RefusedError")


@dataclass
class Maintenance(Tries):
    simulation: Simulation  # of the history
    clocks: Sequence[Clock]  # of the machines that processes run on
    workers: Workers  # spread the tasks of steps
    writers: Writers  # delete refs for expirations, as the library does
    oracle: Oracle  # called with thresholds
    runs: dict[str, Run] = field(default_factory=dict)  # all collections, by name

    def collect(self, name: str, config: dict[str, Any]) -> Run:
        """Do a collection to its end (called by an actor of an immortal process)."""
        run = self.runs[name] = Run(name, config)
        self._chain(run, TASKS)
        if run.outcome == "success":
            self.oracle.note_success(run.run_uri.rpartition("/")[2])
        return run

    def was_clean(self, name: str) -> bool:
        files = self.oracle.own.run_of(name)
        return files is None or files.plan["mode"] == "clean"

    def again(self, name: str) -> None:
        """Repeat a collection from its plan on, like a cleared DAG run."""
        run = self.runs.get(name)
        if run is not None and run.ended and run.run_uri:
            run.ended, run.errors, run.outcome = False, [], ""
            self._chain(run, ("acquire_lease", "collect", "save_report", "release_lease"))

    def expire(self, name: str, rule: str, days: float, branches: bool, tags: bool) -> None:
        """Expire in place on spec 1."""
        if self.writers.spec != 1:
            return
        threshold = micros_before(self.simulation, days)
        older = instant(self.simulation.scheduler.now - days * 86_400)
        self.oracle.threshold = max(self.oracle.threshold, threshold)

        def work() -> None:
            with right_to_work(URI, f"expiration {name}"):
                expire_in_place(
                    open_writer(URI),
                    older,
                    rule=rule,
                    delete_expired_branches=branches,
                    delete_expired_tags=tags,
                    delete_ref=self._delete_ref,
                )

        for _ in range(RETRIES + 1):
            error, _ = self.attempt(name, "expire", work)
            if error is None or not is_retried(error):
                break
            self.simulation.scheduler.wait(60.0)
        self.simulation.states[f"expiration {type(error).__name__ if error else 'done'}"] += 1

    def begun(self, process: Process) -> None:
        self.oracle.begun(process)

    def _delete_ref(self, ref: Ref) -> None:
        verb = "_delete_branch" if ref.kind == "branch" else "_untag"
        getattr(self.writers, verb)(ref.name)

    def _task(self, run: Run, task: str) -> BaseException | None:
        error: BaseException | None = None
        for _ in range(RETRIES + 1):
            error, result = self.attempt(f"{run.name} {task}", task, lambda: self._operator(run, task))
            if error is None:
                self._took(run, task, result)
                return None
            if isinstance(error, WitnessError):
                self._accept(run)
            elif not is_retried(error):
                return error
            self.simulation.scheduler.wait(120.0 if isinstance(error, ConflictError) else 60.0)
        return error

    def _accept(self, run: Run) -> None:
        self.simulation.states["main was reset"] += 1
        self.attempt(f"{run.name} forget-lost", "forget-lost", lambda: forget_lost(URI, "reset on purpose"))

    def _operator(self, run: Run, task: str) -> Any:
        if task == "acquire_lease":
            grant = make_lease(open_state(URI)).acquire(f"dag {run.name}")
            if run.run_uri:
                steps.resume_run(steps.Run.open(run.run_uri), URI, grant)
            return grant
        if task == "plan":
            config = from_json(CollectConfig, run.config)
            return steps.plan_collection(config, run.grant, None, self.running.clock).run_uri
        if task == "release_lease":
            if run.grant is None:
                raise ConfigError("no lease was taken in this run")
            make_lease(open_state(URI)).release(run.grant)
            return None
        if not run.run_uri:
            raise RefusedError("the run came to no plan")
        opened = steps.Run.open(run.run_uri, None, self.running.clock)
        if task == "save_report":
            return steps.save_report(opened).details["outcome"]
        return self._steps(opened)

    def _steps(self, run: steps.Run) -> None:
        process = self.running
        for step in STEPS[:5]:
            process.role, process.begun = step, self.simulation.scheduler.now
            work: Callable[..., Any] = getattr(steps, step)
            if step in ("check_limits", "verify"):
                work(run)
            else:
                work(run, self.workers)


LEASE_SECONDS = timedelta(hours=1).total_seconds()
"""Time until the lease of a dead run can be taken over."""
