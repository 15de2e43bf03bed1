"""People's actions on runs: approve or reject, resume, restore, purge."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dredge.errors import DredgeError, LeaseHeldError
from dredge.gc import steps
from dredge.storage import open_writer
from tests.simulation.clock import DAY
from tests.simulation.history import Simulation
from tests.simulation.oracle import Oracle
from tests.simulation.orchestrator import Orchestrated, Orchestrator, is_retried
from tests.simulation.workers import wait_unless_lost

AIRFLOW, COMMAND = "Airflow", "dredge gc"
TRIES = 12
WAIT_SECONDS = 600.0


@dataclass
class People:
    simulation: Simulation  # of the history
    repository: str  # name
    orchestrator: Orchestrator  # has the runs
    oracle: Oracle  # called with restored objects, and with the arguments of a purge
    asked: int = 0

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "answer": self._answer,
            "resume": self.orchestrator.resume,
            "restore": self._restore,
            "purge": self._purge,
            "put by hand": self._put_by_hand,
        }

    def _answer(self, name: str, decision: steps.Decision, by: str, through: str) -> None:
        run = self.orchestrator.runs.get(name)
        if run is None or not run.run_uri:
            return
        if through == AIRFLOW:
            if run.waiting is not None and run.response is None:
                run.response = decision, by
                self.simulation.scheduler.wake(run.waiting)
            return
        client = self.orchestrator.make_client()
        process = self.orchestrator.process(f"{name} answer", "answer")

        def answer() -> None:
            opened = steps.Run.open(run.run_uri, None, client, process.clock)
            self.orchestrator.say(opened, run, decision, by, through)

        actor = self.simulation.scheduler.spawn(process.name, answer, process)
        wait_unless_lost(self.simulation, actor)
        self.orchestrator.refuse_unforeseen("answer", actor)

    def _restore(self, number: int, days: float) -> None:
        run = self._run(number)
        if run is None:
            return
        params = {"repository": self.repository, "run": run.run_uri, "all": True, "keep_days": days}
        config, runner = steps.RestoreConfig.from_params(params), self.orchestrator.workers
        before, name = set(self.oracle.by_run.get(run.name, ())), f"restore{self.asked}"
        self.oracle.undone.restores[name] = run.name
        done = self.side_run(
            "restore",
            lambda holder, client, clock: steps.restore(config, runner, holder, client, None, clock),
        )
        end = self.simulation.scheduler.now + days * DAY
        self.oracle.undone.bringing |= dict.fromkeys(
            before, end
        )  # also the objects restored by a killed restore
        if done is not None:
            counts = done.counts
            self.oracle.undone.judge_count(name, counts["restored_objects"])
            whole = not any(counts[f"{what}_objects"] for what in ("failed", "not_sent", "gone", "taken"))
            self.oracle.undone.brought_back(before, days, whole)

    def _purge(self, days: float, dry_run: bool) -> None:
        params = {"repository": self.repository, "older_than_days": days, "dry_run": dry_run}
        config, runner = steps.PurgeConfig.from_params(params), self.orchestrator.workers
        self.oracle.undone.purges[f"purge{self.asked}"] = days, dry_run
        self.side_run(
            "purge", lambda holder, client, clock: steps.purge(config, runner, holder, client, None, clock)
        )

    def _put_by_hand(self, number: int, data: bytes | None) -> None:
        oracle = self.oracle
        missing = [
            key
            for key in sorted(oracle.deleted, key=lambda key: (-oracle.deleted[key], key))
            if oracle.root + key not in oracle.bucket.objects
        ]
        if missing:
            address = missing[number % len(missing)]
            content = oracle.first[oracle.root + address] if data is None else data
            oracle.put_by_hand[address] = self.simulation.scheduler.now
            with suppress(DredgeError):
                open_writer(f"memory://{oracle.bucket.name}/{oracle.root.rstrip('/')}").put(address, content)

    def _run(self, number: int) -> Orchestrated | None:
        runs = [run for _, run in sorted(self.orchestrator.runs.items()) if run.run_uri]
        return runs[number % len(runs)] if runs else None

    def side_run(self, what: str, do: Callable[..., Any]) -> Any:
        """Do a run beside collections like its DAG, with retries; returns its summary, None when it failed."""
        name = f"{what}{self.asked}"
        self.asked += 1
        for _ in range(TRIES):
            process = self.orchestrator.process(f"{name} try", what)
            client = self.orchestrator.make_client()
            actor = self.simulation.scheduler.spawn(
                process.name,
                lambda client=client, process=process: do(f"dag {name}", client, process.clock),
                process,
            )
            ended = wait_unless_lost(self.simulation, actor)
            self.orchestrator.refuse_unforeseen(what, actor)
            if ended and actor.error is None:
                self.simulation.states[f"{what} done"] += 1
                return actor.result if actor.result is not None else True
            if ended and not isinstance(actor.error, LeaseHeldError) and not is_retried(actor.error):
                break
            self.simulation.scheduler.wait(WAIT_SECONDS)
        error = f"{type(actor.error).__name__}" if actor.error is not None else "lost"
        self.simulation.states[f"{what} ended by {error}"] += 1
        return None
