"""Rules about Dredge's own files in a repository, checked on each write.

A plan never gets a lower lease. Of two reports the later one stays. A result is valid only with its inputs. References
of the newest state, and of those of the last week, stay, and so do parts of the index, and copies.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.history import Simulation
from tests.simulation.scheduler import Process

OWN, RUNS = "_dredge/", "_dredge/runs/"
CHAIN: Mapping[str, tuple[str, ...]] = {
    "list_candidates": ("mark",),
    "check_limits": ("mark", "list_candidates"),
    "bulk_delete": ("mark", "list_candidates", "check_limits"),
}
"""The inputs of each step."""
SHARED = ("report.json", "report.html")
WEEK = 7 * DAY - HOUR
MARK_AGE_SECONDS = 12.3 * HOUR
CALLS = 12
"""Maximum number of a process's calls between its last look and its action."""
SETTLING_CALLS = 3
"""Number of calls to finish a part of the ledger, or the step, after the last look of a sweep."""


@dataclass
class RunFiles:
    name: str  # of the run, which begins the names of its processes
    plan: dict[str, Any]  # as it was written last
    planned: float  # when, in true seconds
    digests: dict[str, str] = field(default_factory=dict)  # of the valid results, by step
    # digests of what these were made from, by step
    inputs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # the same of every result that was ever valid, by its digest
    made: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # calls that each process had made when the chain was broken last; empty while it holds
    broken: dict[str, int] = field(default_factory=dict)
    claimed: str = ""  # who claimed the last try of the report
    # names of the files that each process wrote for the report
    reported: dict[str, set[str]] = field(default_factory=dict)
    # when results were replaced, with the calls that each process of the run had made by then
    redone: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def is_broken(self) -> bool:
        """Whether a valid result has an invalid input."""
        return any(
            self.inputs.get(step, {}).get(read, self.digests.get(read)) != self.digests.get(read)
            for step, wanted in CHAIN.items()
            if step != "bulk_delete"
            for read in wanted
        )


@dataclass
class OwnFiles:
    simulation: Simulation  # of the history
    processes: dict[str, Process] = field(default_factory=dict)  # of collections that were begun, by name
    runs: dict[str, RunFiles] = field(default_factory=dict)  # by id
    lease: int = 0  # number of the last right to work
    leased: dict[str, int] = field(default_factory=dict)  # calls that each process had made when it was given
    # of the state: each one's time, references, and lease
    versions: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    heads: dict[str, frozenset[str]] = field(default_factory=dict)  # of the index: what each names
    replaced: dict[str, float] = field(default_factory=dict)  # when each head of the index was replaced

    def run_of(self, process: str) -> RunFiles | None:
        name = process.partition(" ")[0]
        return next((run for run in self.runs.values() if run.name == name), None)

    def on_put(self, name: str, data: bytes) -> None:
        if name.startswith(RUNS):
            run_id, _, rest = name.removeprefix(RUNS).partition("/")
            self._of_a_run(run_id, rest, data)
        elif name == f"{OWN}lease.json":
            number = int(json.loads(data)["fencing"])
            if number != self.lease:
                self.lease = number
                self.leased = {each.name: each.calls for each in self.processes.values()}
        elif name.startswith(f"{OWN}state/versions/"):
            value = json.loads(data)
            parts = _parts(value["counted"])
            self.versions.append((self._now, frozenset(OWN + part for part in parts)))
        elif name.startswith(f"{OWN}index/heads/"):
            value = json.loads(data)
            named = [*value["snapshots"], *(each["part"] for each in value["manifests"])]
            self.heads[name] = frozenset(OWN + part["name"] for part in named)
            for head in value.get("replaces", ()):
                self.replaced.setdefault(OWN + head, self._now)

    def on_delete(self, name: str) -> None:
        why = ""
        if name.startswith(f"{OWN}counted/") and any(name in named for named in self._counting()):
            why = "a state of the last week names it"
        elif name.startswith(f"{OWN}index/") and any(
            name in (head, *self.heads[head]) for head in self._in_force()
        ):
            why = "a head of the index that was in force within a week is it, or names it"
        elif name.startswith(RUNS) and "/quarantine/" in name and self._role in ("save_report", "plan"):
            why = "it is a copy of what a run deleted, and nobody purged it"
        if why:
            self.simulation.violate("own files", f"{name} is deleted: {why}")

    def check_sweep(self, process: Process) -> None:
        run = self.run_of(process.name)
        if run is not None and process.begun - run.planned > MARK_AGE_SECONDS:
            hours = (process.begun - run.planned) / HOUR
            self.simulation.violate("old mark", f"{run.name} begins to sweep a mark of {hours:.1f} h")

    def _of_a_run(self, run_id: str, name: str, data: bytes) -> None:
        run, process = self.runs.get(run_id), self._process
        if name == "plan.json":
            plan = json.loads(data)
            if run is None:
                self.runs[run_id] = RunFiles(process.partition(" ")[0], plan, self._now)
                return
            before, now = run.plan["lease"]["fencing"], plan["lease"]["fencing"]
            if now < before:
                self.simulation.violate("lease", f"the plan of {run.name} gets lease {now} back for {before}")
            run.plan = plan
        elif run is None:
            return
        elif name == "save_report/_try.json":
            run.claimed = process
        elif name in SHARED:
            self._report_written(run, name)
        elif name == "guard.json":
            self._check_guard(run, json.loads(data))
        elif name.endswith("/_SUCCESS.json"):
            self._step_done(run, json.loads(data))

    def _report_written(self, run: RunFiles, name: str) -> None:
        process = self._process
        run.reported.setdefault(process, set()).add(name)
        if process != run.claimed and name in run.reported.get(run.claimed, ()):
            self.simulation.violate("report", f"an earlier {name} of {run.name} replaces a later one")

    def _check_guard(self, run: RunFiles, guard: Mapping[str, Any]) -> None:
        process = self.simulation.scheduler.process
        if process.name not in self.leased:
            return
        noticed = process.calls - self.leased[process.name] > CALLS
        for finding in guard["findings"]:
            lost = finding["rule"] == "lease_held" and finding["verdict"] == "passed"
            if lost and self.lease > run.plan["lease"]["fencing"] and noticed:
                self.simulation.violate("figures", f"{run.name} says that it holds a lease that another has")

    def _step_done(self, run: RunFiles, summary: Mapping[str, Any]) -> None:
        step, current = summary["step"], self.simulation.scheduler.current
        # A sweep without candidates deletes nothing, and does not look at the chain: the end of the run does.
        if step == "bulk_delete" and (summary["parts"] or summary["status"] == "dry_run"):
            self._check_inputs(run, summary["inputs"])
            self.check_chain(run, SETTLING_CALLS * (len(summary["parts"]) + 1))
        if step not in ("mark", *CHAIN) or step == "bulk_delete":
            return
        was = bool(run.broken)
        if run.digests.get(step, summary["digest"]) != summary["digest"]:
            run.redone.append((self._now, self._calls(run)))
        run.digests[step], run.inputs[step] = summary["digest"], summary["inputs"]
        run.made[summary["digest"]] = summary["inputs"]
        if not run.is_broken():
            run.broken = {}
        elif not was and current is not None:
            run.broken = self._calls(run)

    def check_chain(self, run: RunFiles, more: int = 0) -> None:
        """A sweep has ended, or is about to delete: its inputs belong together."""
        current = self.simulation.scheduler.current
        if current is None or not run.broken:
            return
        seen = run.broken.get(current.process.name)
        if seen is not None and current.process.calls - seen > CALLS + more:
            self.simulation.violate(
                "chain", f"{run.name} deletes by results that were not made from each other"
            )

    def _check_inputs(self, run: RunFiles, inputs: Mapping[str, str]) -> None:
        for step in ("list_candidates", "check_limits"):
            for read, digest in run.made.get(inputs.get(step, ""), {}).items():
                if inputs.get(read, digest) != digest:
                    self.simulation.violate("chain", f"{run.name} reads {read}, and {step} of another one")

    def note_sweep(self, name: str) -> None:
        run = self.runs.get(name.rpartition("/")[2].removesuffix(".json"))
        current = self.simulation.scheduler.current
        if run is None or current is None:
            return
        self.check_chain(run)
        process = current.process
        for at, calls in run.redone:
            seen = calls.get(process.name, process.calls)
            if at > process.begun and process.calls - seen > CALLS:
                self.simulation.violate(
                    "chain", f"{run.name} begins to delete by a result that was made anew since"
                )

    def _calls(self, run: RunFiles) -> dict[str, int]:
        return {
            name: process.calls for name, process in self.processes.items() if name.startswith(f"{run.name} ")
        }

    def _counting(self) -> Iterable[frozenset[str]]:
        ends = [*(when for when, _ in self.versions[1:]), self._now + 1]
        since = self._now - WEEK
        return [named for (_, named), end in zip(self.versions, ends, strict=False) if end > since]

    def _in_force(self) -> list[str]:
        return [head for head in self.heads if self.replaced.get(head, self._now) > self._now - WEEK]

    @property
    def _now(self) -> float:
        return self.simulation.scheduler.now

    @property
    def _process(self) -> str:
        return self.simulation.scheduler.process.name

    @property
    def _role(self) -> str:
        return self.simulation.scheduler.process.role


def _parts(counted: Any) -> list[str]:
    if isinstance(counted, dict):
        own = [counted["name"]] if "name" in counted and "sha256" in counted else []
        return own + [name for value in counted.values() for name in _parts(value)]
    return [name for value in counted for name in _parts(value)] if isinstance(counted, list) else []
