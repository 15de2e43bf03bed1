"""People's actions on collections of Icechunk: restores and purges."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dredge.errors import LeaseHeldError
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.collection.witness.judging import forget_lost
from tests.simulation.clock import DAY
from tests.simulation.history import Simulation
from tests.simulation.icechunk.maintenance import Maintenance
from tests.simulation.icechunk.oracle import Oracle
from tests.simulation.icechunk.writers import ROOT, URI
from tests.simulation.orchestrator import is_retried

TRIES = 8
WAIT_SECONDS = 600.0


@dataclass
class People:
    simulation: Simulation  # of the history
    maintenance: Maintenance  # has the runs
    oracle: Oracle  # called with restored objects
    asked: int = 0

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {"restore": self._restore, "purge": self._purge, "forget lost": self._forget}

    def end_refusal(self) -> bool:
        """Accept a restored older state of refs or repo info; returns whether this was needed."""
        if not self.oracle.was_put_back:
            return False
        self.oracle.was_put_back = False
        self._remove_later_copies()
        return self._forget()

    def _restore(self, number: int, days: float) -> None:
        runs = [run for _, run in sorted(self.maintenance.runs.items()) if run.run_uri]
        if not runs:
            return
        run = runs[number % len(runs)]
        params = {"storage": URI, "run": run.run_uri, "all": True, "keep_days": days}
        config = IcechunkRestoreConfig.from_params(params)
        names = set(self.oracle.swept.get(run.name, ()))
        if run.outcome != "success":
            self.oracle.may_be_pinned |= {key.removeprefix(ROOT) for key in self.oracle.unneeded()}
        began = self.simulation.scheduler.now
        done = self._side_run(
            "restore", lambda holder, clock: steps.restore(config, self._workers, holder, None, clock)
        )
        self.oracle.may_be_back |= names
        if run.outcome != "success":  # also what other runs deleted meanwhile
            self.oracle.may_be_pinned |= {name for swept in self.oracle.swept.values() for name in swept}
        if done:
            self.oracle.brought_back(names, began + days * DAY - WAIT_SECONDS)

    def _purge(self, days: float, dry_run: bool) -> None:
        config = IcechunkPurgeConfig.from_params(
            {"storage": URI, "older_than_days": days, "dry_run": dry_run}
        )
        self._side_run("purge", lambda holder, clock: steps.purge(config, self._workers, holder, None, clock))

    def _forget(self) -> bool:
        return self._side_run(
            "forget", lambda _holder, _clock: forget_lost(URI, "a person looked into it", "anna")
        )

    def _remove_later_copies(self) -> None:
        writers, bucket = self.oracle.writers, self.oracle.bucket
        if writers.spec == 2:
            info = writers.infos[bucket.objects[f"{ROOT}repo"].data]
            named = {copy for _, copy in info.updates}
            for key in [key for key in bucket.keys if key.startswith(f"{ROOT}overwritten/")]:
                if key.rpartition("/")[2] not in named:
                    bucket.lose(key)

    def _side_run(self, what: str, do: Callable[..., Any]) -> bool:
        name = f"{what}{self.asked}"
        self.asked += 1
        for _ in range(TRIES):
            error, _ = self.maintenance.attempt(
                name, what, lambda: do(f"dag {name}", self.maintenance.running.clock)
            )
            if error is None:
                self.simulation.states[f"{what} done"] += 1
                return True
            if not isinstance(error, LeaseHeldError) and not is_retried(error):
                break
            self.simulation.scheduler.wait(WAIT_SECONDS)
        self.simulation.states[f"{what} ended by {type(error).__name__}"] += 1
        return False

    @property
    def _workers(self) -> Any:
        return self.maintenance.workers
