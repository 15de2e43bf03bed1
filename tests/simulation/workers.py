"""Workers of a step: separate processes, which outlive their driver, and may be lost or started twice."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dredge.errors import UnavailableError
from dredge.runs.payload import Json
from dredge.runs.tasks import TaskFunction
from tests.simulation.clock import Clock
from tests.simulation.history import Simulation
from tests.simulation.noise import mix, stable_hash, unit
from tests.simulation.scheduler import Actor, Killed, Process

LOST_SECONDS = 300.0
"""Silence after which a process is taken for lost."""
TASK_TRIES = 4


@dataclass
class Workers:
    simulation: Simulation  # of the history
    clocks: Sequence[Clock]  # of the machines that they run on
    at_once: int = 2
    twice: float = 0.0  # share of tasks that are started twice

    @property
    def default_parallelism(self) -> int:
        return self.at_once

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
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
        self, driver: Process, number: int, attempt: int, fn: TaskFunction, config: Json, task: Json
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
        self, driver: Process, number: int, actor: Actor, fn: TaskFunction, config: Json, task: Json
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
    """Wait for the end of a process, or until it is taken for lost; returns whether it has ended."""
    scheduler = simulation.scheduler
    while not actor.ended:
        scheduler.join(actor, 60.0)
        is_silent = actor.process.given_up or actor.process.paused_until > scheduler.now + LOST_SECONDS
        if not actor.ended and is_silent:
            return False
    return True
