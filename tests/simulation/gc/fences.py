"""The separation of two runs, or two tries of a step: rules about the lease, and about overtaken tries.

state       the state is only updated from its value at the run's planning, or after a try of the run
lease       the lease is not taken while another run holds it, or while its run waits for an answer; its number only
            grows; the plan of a run keeps its holder and never gets a lower number; a running sweep does not take a
            released lease back; after losing the lease a run deletes nothing more
overtaken   a try of a sweep deletes nothing, and a try replaces no report, after a later one has begun; no round of
            deleting begins after that, or after a repeated input step
chain       nothing is deleted, and no dry run counted, for results of a step repeated after a later step used them and
            before the sweep's last look
mark        a sweep deletes nothing if its mark was too old when it began

Requests on their way cannot be stopped, so each process has some seconds to notice, from its waking.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from tests.simulation.history import Simulation
from tests.simulation.scheduler import Process
from tests.simulation.stores import WIRE

LEASE, TRY, PLAN = "/dredge/lease.json", "/_try.json", "/plan.json"
REPORT, WATCH = "/report.json", "/bulk_delete/_watch/"
SWEEP = "bulk_delete"
LOOK_SECONDS = 65.0
"""Maximum age of a worker's look before each request: a driver's silence, and the time a look is trusted."""
CHAIN = ("slice_listing", "mark_uncommitted", "list_committed", "subtract", "check_limits", "bulk_delete")
"""Steps, each with the results of the earlier ones as its input."""
_LATE = timedelta(minutes=5)
"""Between a sweep's beginning and its check of the mark's age."""
_EXPIRED_FOR = timedelta(seconds=2)
"""Clocks may have whole seconds."""


@dataclass
class Fences:
    """Follows leases and tries from written records."""

    simulation: Simulation  # of the history
    store_now: Callable[[], datetime]  # the store's time
    holder: str = ""  # of the lease; "" without a holder
    number: int = 0  # of the lease
    expires_at: datetime | None = None  # of the lease
    since: float = 0.0  # when the lease got this number
    # holder and number in the plan of each run, by key
    plans: dict[str, tuple[str, int]] = field(default_factory=dict)
    # when each run was planned by the store's clock, and how old its mark may be, by key of its plan
    marks: dict[str, tuple[datetime, timedelta]] = field(default_factory=dict)
    # the newest try of each step, by key: the driver that began it, and when
    claims: dict[str, tuple[str, float]] = field(default_factory=dict)
    released_at: float = 0.0  # when the lease was given back, if it was
    # whether the run of a holder waits for an answer
    is_waiting: Callable[[str], bool] = lambda _holder: False
    # in bad weather, how long something may have been so before every sweep must know
    grace_seconds: float = 90.0
    reports: set[str] = field(default_factory=set)  # keys of reports that were written
    watched: set[str] = field(default_factory=set)  # what drivers of sweeps have written for their workers
    # tag of the pointer to the state that each run was planned on, by its id; None for none
    planned_on: dict[str, str | None] = field(default_factory=dict)
    # that tag now, and the id of the run that has moved the state there
    state: tuple[str | None, str] = None, ""

    def on_put(self, key: str, data: bytes) -> None:
        if key.endswith(LEASE):
            self._lease(json.loads(data))
        elif key.endswith(PLAN) and ("/unified/" in key or key.startswith("runs/")):
            plan = json.loads(data)
            if "config" in plan:  # what restores and purges plan has none
                hours = plan["config"]["safety"]["mark_age_hours_max"]
                self.marks[key] = datetime.fromisoformat(plan["created_at"]), timedelta(hours=hours)
                self.planned_on[plan["run_id"]] = plan["state_etag"]
            self._plan(key, plan["lease"])
        elif key.endswith(TRY):
            self.claims[key] = _driver(self._process()), self.simulation.scheduler.now
        elif key.endswith(REPORT):
            self._judge_report(key)
        elif WATCH in key and key not in self.watched and json.loads(data)["open"]:
            self.watched.add(key)
            self._judge_begin(key.partition(WATCH)[0])
        elif key.endswith(f"/{CHAIN[-1]}/_SUCCESS.json") and json.loads(data)["status"] == "dry_run":
            folder = key.removesuffix(f"/{CHAIN[-1]}/_SUCCESS.json")
            self._judge_chain(folder, self._begun(folder, CHAIN[-1]), "counts what would go")

    def on_state(self, data: bytes, etag: str) -> None:
        run_id, (before, by) = json.loads(data)["run_id"], self.state
        if by != run_id and self.planned_on[run_id] != before:
            self.simulation.violate(
                "state",
                f"{self._process().name} moves the state on, and {by} has done so since its run was planned",
            )
        self.state = etag, run_id

    def on_delete(self, folder: str, address: str) -> None:
        """Check the deleting process."""
        words = f"deletes {address}"
        self._judge_try(folder, SWEEP, words)
        self._judge_chain(folder, self._process().begun, words)
        self._judge_mark(folder, words)
        _, number = self.plans.get(f"{folder}{PLAN}", ("", 0))
        if number < self.number and self.must_know(self._process(), self.since):
            self.simulation.violate(
                "lease", f"{self._process().name} {words} under number {number}; {self.number} has the lease"
            )

    def can_know(self, process: Process, since: float) -> bool:
        """Whether a process had the time to notice a fact true since some time, before it began its present call: it
        looks every few seconds while awake, and requests on their way cannot be stopped.
        """
        doors, now = self.simulation.doors, self.asked()
        pace = max([0.01, *doors.pace.values()])
        seconds = 10 + 20 * pace
        if doors.weather.struck:
            seconds += 1000 * pace
        awake = process.paused_until if process.paused_until <= now else now
        return now - max(since, awake) > seconds

    def must_know(self, process: Process, since: float) -> bool:
        """Whether the sender of a request must know a fact true since some time: it was awake for long enough, or its
        last look would be too old, even after a sleep.
        """
        return self.can_know(process, since) or self.is_late(since)

    def is_late(self, since: float) -> bool:
        """Whether a request was begun so long after an event that every trusted look is newer."""
        return self.asked() - since > LOOK_SECONDS + self._slack()

    def asked(self) -> float:
        """Time at which the running process began its call."""
        current = self.simulation.scheduler.current
        return self.simulation.scheduler.now if current is None else current.asked

    def seconds_to_notice(self) -> float:
        """Time until every sweep must know a fact: the looking process may sleep, or be slow."""
        doors = self.simulation.doors
        if doors.sleeps or doors.weather.struck:
            return self.grace_seconds
        return 15 + 20 * max([0.01, *doors.pace.values()])

    def _slack(self) -> float:
        return 20 * max([0.01, *self.simulation.doors.pace.values()])

    def _judge_try(self, folder: str, step: str, words: str) -> None:
        driver, since = self.claims.get(f"{folder}/{step}{TRY}", ("", 0.0))
        process = self._process()
        if driver and driver != _driver(process) and self.must_know(process, since):
            self.simulation.violate("overtaken", f"{process.name} {words}; {driver} has begun anew since")

    def _judge_report(self, key: str) -> None:
        # Where nothing is, any try may write one: a later try replaces it.
        is_first = key not in self.reports
        self.reports.add(key)
        driver, since = self.claims.get(f"{key.removesuffix(REPORT)}/save_report{TRY}", ("", 0.0))
        current = self.simulation.scheduler.current
        if is_first or current is None or not driver or driver == _driver(current.process):
            return
        if current.process.role == WIRE:
            return  # an earlier request for the same
        if current.asked - since > self._slack():
            self.simulation.violate(
                "overtaken", f"{current.process.name} replaces the report; {driver} has begun anew since"
            )

    def _judge_begin(self, folder: str) -> None:
        process = self._process()
        for step in CHAIN:
            driver, since = self.claims.get(f"{folder}/{step}{TRY}", ("", 0.0))
            is_new = driver not in ("", _driver(process)) and (since > process.begun or step == SWEEP)
            if is_new and self.can_know(process, since):
                self.simulation.violate(
                    "overtaken", f"{process.name} begins to delete; {driver} has begun anew"
                )

    def _judge_chain(self, folder: str, looked: float, words: str) -> None:
        for earlier, later in pairwise(CHAIN):
            at = self._begun(folder, earlier)
            if self._begun(folder, later) < at <= looked:
                self.simulation.violate(
                    "chain", f"{self._process().name} {words}; {earlier} was begun anew after {later}"
                )

    def _judge_mark(self, folder: str, words: str) -> None:
        if f"{folder}{PLAN}" not in self.marks:
            return
        planned_at, oldest = self.marks[f"{folder}{PLAN}"]
        since = timedelta(seconds=self.simulation.scheduler.now - self._begun(folder, CHAIN[-1]))
        age = self.store_now() - since - planned_at
        if age > oldest + _LATE:
            self.simulation.violate("mark", f"{self._process().name} {words} by a mark that was {age} old")

    def _begun(self, folder: str, step: str) -> float:
        return self.claims.get(f"{folder}/{step}{TRY}", ("", 0.0))[1]

    def _lease(self, value: dict[str, object]) -> None:
        holder, number = str(value["holder"]), int(str(value["fencing"]))
        is_held = self.expires_at is not None and self.expires_at > self.store_now() + _EXPIRED_FOR
        if number < self.number or (number > self.number and self.holder not in ("", holder) and is_held):
            self.simulation.violate(
                "lease", f"{holder} takes number {number} while {self.holder} holds number {self.number}"
            )
        if number > self.number and holder != self.holder and self.is_waiting(self.holder):
            self.simulation.violate("lease", f"{holder} takes the lease while {self.holder} awaits an answer")
        if number == self.number and holder and not self.holder:
            self._judge_taken_back()
        if not holder:
            self.released_at = self.simulation.scheduler.now
        if number > self.number:
            self.since = self.simulation.scheduler.now
        self.holder, self.number = holder, number
        self.expires_at = datetime.fromisoformat(str(value["expires_at"]))

    def _judge_taken_back(self) -> None:
        process = self._process()
        begun = [
            since
            for key, (driver, since) in self.claims.items()
            if key.endswith(f"/{SWEEP}{TRY}") and driver == _driver(process)
        ]
        if process.role == SWEEP and any(since < self.released_at for since in begun):
            self.simulation.violate("lease", f"{process.name} takes back the lease that its run gave back")

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
    return process.name.partition(" task ")[0]
