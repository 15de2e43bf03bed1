"""What keeps two runs, or two tries of a step, apart: rules about the lease, and about tries that were overtaken.

lease       nobody takes the lease while another holds it, its number only grows, the plan of a run keeps its holder and
            never gets a lower number, and who lost the lease deletes nothing more
overtaken   nothing is deleted by a try of a sweep, and no report written by a try, once a later one was begun

What was on its way when it happened cannot be held back, so that each process has some seconds to notice, from when it
is awake.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.simulation.history import Simulation
from tests.simulation.scheduler import Process

LEASE, TRY, PLAN = "/dredge/lease.json", "/_try.json", "/plan.json"
_EXPIRED_FOR = timedelta(seconds=2)
"""Clocks may show whole seconds."""


@dataclass
class Fences:
    """Follows leases and tries by what is written.

    Attributes:
        simulation: of the history.
        store_now: the store's time.
        holder: of the lease; "" for nobody.
        number: of the lease.
        expires_at: of the lease.
        since: when the lease got this number.
        plans: holder and number in the plan of each run, by key.
        claims: the newest try of each step, by key: the driver that began it, and when.
    """

    simulation: Simulation
    store_now: Callable[[], datetime]
    holder: str = ""
    number: int = 0
    expires_at: datetime | None = None
    since: float = 0.0
    plans: dict[str, tuple[str, int]] = field(default_factory=dict)
    claims: dict[str, tuple[str, float]] = field(default_factory=dict)

    def on_put(self, key: str, data: bytes) -> None:
        """Look at what is written."""
        if key.endswith(LEASE):
            self._lease(json.loads(data))
        elif key.endswith(PLAN) and "/unified/" in key:
            self._plan(key, json.loads(data)["lease"])
        elif key.endswith(TRY):
            self.claims[key] = _driver(self._process()), self.simulation.scheduler.now
        elif key.endswith("/report.json"):
            self._judge_try(key.removesuffix("/report.json"), "save_report", "writes the report")

    def on_delete(self, folder: str, address: str) -> None:
        """Look who deletes.

        Args:
            folder: of the run.
            address: that is about to go.
        """
        words = f"deletes {address}"
        self._judge_try(folder, "bulk_delete", words)
        _, number = self.plans.get(f"{folder}{PLAN}", ("", 0))
        if number < self.number and self.can_know(self._process(), self.since):
            self.simulation.violate(
                "lease", f"{self._process().name} {words} under number {number}; {self.number} has the lease"
            )

    def can_know(self, process: Process, since: float) -> bool:
        """Whether a process has had the time to notice what has been so since some time: it looks every few seconds
        while it is awake."""
        doors, now = self.simulation.doors, self.simulation.scheduler.now
        pace = max([0.01, *doors.pace.values()])
        seconds = 10 + 20 * pace
        if doors.weather.struck:
            seconds += 1000 * pace
        awake = process.paused_until if process.paused_until <= now else now
        return now - max(since, awake) > seconds

    def _judge_try(self, folder: str, step: str, words: str) -> None:
        driver, since = self.claims.get(f"{folder}/{step}{TRY}", ("", 0.0))
        process = self._process()
        if driver and driver != _driver(process) and self.can_know(process, since):
            self.simulation.violate("overtaken", f"{process.name} {words}; {driver} has begun anew since")

    def _lease(self, value: dict[str, object]) -> None:
        holder, number = str(value["holder"]), int(str(value["fencing"]))
        is_held = self.expires_at is not None and self.expires_at > self.store_now() + _EXPIRED_FOR
        if number < self.number or (number > self.number and self.holder not in ("", holder) and is_held):
            self.simulation.violate(
                "lease", f"{holder} takes number {number} while {self.holder} holds number {self.number}"
            )
        if number > self.number:
            self.since = self.simulation.scheduler.now
        self.holder, self.number = holder, number
        self.expires_at = datetime.fromisoformat(str(value["expires_at"]))

    def _plan(self, key: str, lease: dict[str, object]) -> None:
        holder, number = str(lease["holder"]), int(str(lease["fencing"]))
        before = self.plans.get(key)
        if before is not None and (before[0] != holder or before[1] > number):
            self.simulation.violate(
                "lease", f"{key} had number {before[1]} of {before[0]}, and gets {number} of {holder}"
            )
        self.plans[key] = holder, number

    def _process(self) -> Process:
        current = self.simulation.scheduler.current
        return Process("setting", self.simulation.scheduler) if current is None else current.process


def _driver(process: Process) -> str:
    """The name of the process that does a step, from its own or that of one of its workers."""
    return process.name.partition(" task ")[0]
