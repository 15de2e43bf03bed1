"""Rules about approvals: a run's deletions were approved by a valid answer, and not rejected.

An approval is valid for the displayed request, and for the waiting time once more. A rejection is valid for the run.
Requests and answers are written once; an approval is accepted only until the deadline.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from dredge.errors import NotFoundError
from dredge.gc.run import Run
from tests.simulation.clock import HOUR
from tests.simulation.gc.asked import Asked
from tests.simulation.gc.fences import Fences
from tests.simulation.history import Simulation
from tests.simulation.orchestrator import Orchestrated, Said
from tests.simulation.scheduler import Process

MADE = ("slice_listing", "mark_uncommitted", "list_committed", "subtract", "check_limits")
"""Steps with results in a request."""
_RECORD = re.compile(r"(?P<folder>.*)/approve/[0-9a-f]+/(?P<what>request|approved|rejected)\.json")
_SECONDS = 2.0
"""Clocks may have whole seconds."""


@dataclass
class Answers:
    """Follows written requests and answers, and judges deletions by them."""

    simulation: Simulation  # of the history
    fences: Fences  # know the repeated steps
    runs: dict[str, Asked]  # what runs were asked for, by name
    # written records by key: time and bytes
    records: dict[str, tuple[float, bytes]] = field(default_factory=dict)

    def on_put(self, key: str, data: bytes) -> None:
        found = _RECORD.fullmatch(key)
        if found is None:
            return
        _, before = self.records.setdefault(key, (self.simulation.scheduler.now, data))
        if before != data:
            self.simulation.violate("approved", f"{key} is written again, and says something else")
        if found["what"] == "approved":
            self._judge_time(found["folder"], key.replace("approved.json", "request.json"))

    def judge(self, address: str, process: Process, asked: Asked, run: Orchestrated, swept: int) -> None:
        """Check that a deletion was approved, if needed."""
        yes = any(self.counts(answer, process, asked, run) for answer in run.said)
        if asked.approval == "always" and not yes:
            self.simulation.violate("approved", f"{process.name} deletes {address}, and no yes counts")
        if asked.most is not None and swept > asked.most and not (yes and asked.approval != "never"):
            self.simulation.violate("approved", f"{process.name} deletes more than {asked.most}")
        for answer in run.said:
            known = answer.acknowledged
            if answer.decision == "rejected" and known is not None and self._is_known(known, process):
                self.simulation.violate("approved", f"{process.name} deletes {address}, and somebody said no")

    def counts(self, answer: Said, process: Process, asked: Asked, run: Orchestrated) -> bool:
        """Whether an answer approves a process's deletions, and was in time when they began."""
        if answer.decision != "approved":
            return False
        made = [self.fences.claims.get(f"{run.folder}/{step}/_try.json", ("", 0.0))[1] for step in MADE]
        if any(answer.shown < at < process.begun for at in made):
            return False
        at = answer.acknowledged
        return at is None or process.begun < at + asked.hours * HOUR + _SECONDS

    def check_told(self, run: Run, ended: Orchestrated) -> None:
        """Check that the report of a run shows a rejection made before the deadline."""
        _, closed = self.fences.claims.get(f"{ended.folder}/approve/_try.json", ("", 0.0))
        noes = [answer.acknowledged for answer in ended.said if answer.decision == "rejected"]
        if not any(at is not None and at < closed for at in noes):
            return
        with suppress(NotFoundError):
            said = run.folder.read_json("report.json")["approval"]
            if said is not None and said["state"] == "approved":
                words = f"the report of {ended.name} says approved, though somebody had said no"
                self.simulation.violate("figures", words)

    def is_waiting(self, holder: str) -> bool:
        """Whether the DAG run with the lease waits for an answer."""
        return any(
            holder == f"dag {name}" and asked.run().waiting is not None for name, asked in self.runs.items()
        )

    def _is_known(self, since: float, process: Process) -> bool:
        current = self.simulation.scheduler.current
        asked = process.begun if current is None else current.asked
        return since < process.begun or (asked - since > self.fences.seconds_to_notice())

    def _judge_time(self, folder: str, request: str) -> None:
        for asked in self._asked(folder):
            put, _ = self.records.get(request, (float("inf"), b""))
            current = self.simulation.scheduler.current
            if current is not None and current.process.begun > put + asked.hours * HOUR + _SECONDS:
                self.simulation.violate("approved", f"{current.name} says yes to {request} after its time")

    def _asked(self, folder: str) -> Iterable[Asked]:
        return [asked for asked in self.runs.values() if asked.run().folder == folder]
