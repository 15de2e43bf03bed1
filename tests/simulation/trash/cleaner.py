"""Runs of the cleaner: the DAG's two tasks with retries, people with the command, and lost processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import AlarmError, ConfigError, UnavailableError
from dredge.storage import open_writer
from dredge.trash import steps
from dredge.trash.findings import SAFE_GRACE, TrashLimits, TrashMargins
from dredge.trash.report import CleanReport, ScanReport
from dredge.trash.restore import restore, unqueue
from dredge.trash.state import TrashState
from dredge.undo.alarms import acknowledge_alarms
from tests.simulation.clock import Clock
from tests.simulation.history import Simulation
from tests.simulation.orchestrator import Tries, is_retried
from tests.simulation.scheduler import Process
from tests.simulation.trash.rows import DoorRows

STATE = "memory://ops/trash"
TASKS = ("scan", "clean")
RETRIES = 3

_MARGINS = TrashMargins(unnamed=SAFE_GRACE)
"""Peace lasts days, not a month; waits of a month are in tests/unit/trash/test_alarms.py."""


@dataclass
class Run:
    name: str  # begins the names of all its processes
    planned: str = ""  # the scan's run id; "" when it failed
    digest: str = ""
    # partitions and keys of that plan; None where no plan bounds the run
    approved: frozenset[tuple[bytes, bytes | None]] | None = None
    report: CleanReport | None = None  # of the clean
    errors: list[str] = field(default_factory=list)  # what tasks failed with
    ended: bool = False


@dataclass
class Cleaner(Tries):
    simulation: Simulation  # of the history
    rows: DoorRows  # the store as the cleaner sees it
    clocks: Sequence[Clock]  # of the machines that processes run on
    limits: TrashLimits  # of all runs
    runs: dict[str, Run] = field(default_factory=dict)  # all DAG runs, by name
    # called with the result of each clean, by its process
    on_report: Callable[[str, CleanReport], None] = lambda _process, _report: None

    def start(self, name: str, dry_run: bool = False, approval_seconds: float = 0.0) -> Run:
        """Do a DAG run to its end (called by an actor of an immortal process)."""
        run = self.runs[name] = Run(name)
        self._task(run, "scan", lambda: self._scan(run), self._scanned)
        self.simulation.scheduler.wait(approval_seconds)
        self._task(run, "clean", lambda: self._clean(run, dry_run), self._cleaned)
        run.ended = True
        return run

    def again(self, name: str) -> None:
        """Repeat the clean of a DAG run, like a cleared task."""
        run = self.runs.get(name)
        if run is not None and run.ended:
            self._task(run, "clean", lambda: self._clean(run, False), self._cleaned)

    def by_hand(self, name: str) -> None:
        """Clean by hand, without an earlier plan."""
        run = self.runs[name] = Run(name)
        self.attempt(name, "clean", lambda: self._clean(run, False, f"hand {name}"))
        run.ended = True

    def restore(self, number: int) -> None:
        state = TrashState(open_writer(STATE))
        try:
            runs = state.runs()
        except UnavailableError:  # the person leaves it at that
            return
        if runs:
            chosen = runs[number % len(runs)]
            self.attempt("restore", "clean", lambda: restore(self.rows, state, chosen, dry_run=False))

    def unqueue(self) -> None:
        """Remove live tokens from the queue, by hand."""
        state = TrashState(open_writer(STATE))
        self.attempt(
            "unqueue", "clean", lambda: unqueue(self.rows, state, clock=self.running.clock, dry_run=False)
        )

    def acknowledge(self) -> None:
        self.attempt(
            "acknowledge",
            "clean",
            lambda: acknowledge_alarms(open_writer(STATE), STATE, "looked into", "ann"),
        )

    def _task(self, run: Run, task: str, work: Callable[[], Any], took: Callable[[Run, Any], None]) -> None:
        for _ in range(RETRIES + 1):
            error, result = self.attempt(f"{run.name} {task}", task, work)
            if error is None:
                took(run, result)
                return
            if not is_retried(error):
                break
            self.simulation.scheduler.wait(60.0)
        if isinstance(error, AlarmError):
            self.acknowledge()
        run.errors.append(f"{task}: {type(error).__name__}: {error}")
        self.simulation.states[f"{task} failed: {type(error).__name__}"] += 1

    def _scan(self, run: Run) -> ScanReport:
        return steps.scan(
            self.rows,
            TrashState(open_writer(STATE)),
            clock=self.running.clock,
            margins=_MARGINS,
            holder=f"dag {run.name} scan",
        )

    def _clean(self, run: Run, dry_run: bool, holder: str | None = None) -> CleanReport:
        if not holder and not run.planned:
            raise ConfigError("there is no plan, because the scan failed")
        report = steps.clean(
            self.rows,
            TrashState(open_writer(STATE)),
            clock=self.running.clock,
            margins=_MARGINS,
            limits=self.limits,
            planned=None if holder else run.planned,
            planned_digest=run.digest or None,
            dry_run=dry_run,
            holder=holder or f"dag {run.name} clean",
        )
        self.on_report(self.running.name, report)
        return report

    def _scanned(self, run: Run, report: ScanReport) -> None:
        run.planned, run.digest = report.plan.run_id, report.plan.digest
        run.approved = frozenset((found.partition, found.key) for found in report.plan.findings)

    def _cleaned(self, run: Run, report: CleanReport) -> None:
        run.report = report
        self.simulation.states[f"clean {report.status}"] += 1

    def approved(self, process: Process) -> frozenset[tuple[bytes, bytes | None]] | None:
        """The removals allowed by the plan of a process's run; None without a limit."""
        run = self.runs.get(process.name.split(" ")[0])
        return run.approved if run is not None else None
