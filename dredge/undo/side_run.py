"""A run beside collections, for a restore or a purge: its lease, its folder, its single step, and its tasks.

It holds the repository's lease, so no collection runs meanwhile, and writes a plan, a ledger and a summary like one.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from dredge.errors import DredgeError, UnavailableError
from dredge.runs.clock import CLOCK_SKEW_SECONDS_MAX, Clock, check_clocks, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig, watching
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.payload import PartInfo, StepOutput, to_json
from dredge.runs.run import PlannedRun, StepRecord
from dredge.runs.tasks import PartitionFunction, TaskRunner
from dredge.storage import ObjectWriter, StorageOptions, open_reader, open_writer, store_clock
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")

PLAN = "plan.json"
LEASE_SECONDS = 3600.0
GATE_EVERY_SECONDS = 3.0
WATCH_SILENCE_SECONDS_MAX = 60.0
# Interval of the driver's signs of life.
LOOK_SECONDS = 5.0


class SidePlan(Struct, frozen=True, kw_only=True):
    """The plan of such a run."""

    run_id: str
    repository: str
    namespace: str
    created_at: datetime  # the store's time at its start
    lease: LeaseGrant
    asked: Mapping[str, Any]

    @property
    def store_uri(self) -> str:
        """URI of the data."""
        return self.namespace


@dataclass(slots=True)
class SideRun(PlannedRun[SidePlan]):
    """A run beside collections. Make it with `side_run`."""

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return _lease(self.state)

    def gate(self, watched: str) -> GateConfig:
        """The gate for each deleting request; `watched` is the key of the driver's watch file."""
        return gate_of(self.plan.lease, watched)


def gate_of(lease: LeaseGrant, watched: str) -> GateConfig:
    """The gate for each request of a restore or purge; `watched` is the key of the driver's watch file."""
    return GateConfig(
        lease=lease,
        watch=watched,
        trusted_seconds=GATE_EVERY_SECONDS,
        silence_seconds_max=WATCH_SILENCE_SECONDS_MAX,
    )


def _lease(state: ObjectWriter) -> Lease:
    return Lease(state, timedelta(seconds=LEASE_SECONDS), lambda: store_clock(state, ""))


@contextmanager
def side_run(
    repository: str,
    uri: str,
    state: ObjectWriter,
    place: str,
    what: str,
    asked: Mapping[str, Any],
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Iterator[SideRun]:
    """Begin a run beside collections, and release the lease at its end. `holder`: of the lease; the same holder gets it
    again after a crash. None: this run alone. Raises LeaseHeldError: another run works on the repository."""
    before, now = clock(), store_clock(state, "")
    check_clocks((now - before).total_seconds(), CLOCK_SKEW_SECONDS_MAX)
    run_id = new_descending_xid(now)
    lease = _lease(state)
    grant = lease.acquire(holder or f"{what} {run_id}")
    try:
        plan = SidePlan(
            run_id=run_id, repository=repository, namespace=uri, created_at=now, lease=grant, asked=asked
        )
        writer = open_writer(f"{place.rstrip('/')}/{run_id}", options)
        writer.put_if_absent(PLAN, json.dumps(to_json(plan), indent=1, sort_keys=True).encode())
        log.info("%s %s of %s: folder %s", what, run_id, repository, writer.uri)
        yield SideRun(plan, RunFolder(writer, run_id), open_reader(uri, options), state, clock, options)
    finally:
        with suppress(DredgeError):
            lease.release(grant)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts outcomes of objects; a payload."""

    parts: list[PartInfo] = field(default_factory=list)
    objects: dict[str, int] = field(default_factory=dict)
    size_bytes: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)  # objects with leftovers, by deleting run
    # files in the folder of a pin, with the hashes of possibly restored objects
    back: list[PartInfo] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects, self.size_bytes, self.left = map(Counter, (self.objects, self.size_bytes, self.left))

    def count(self, outcome: str, size: int, address: str, message: str) -> None:
        """Count an object, or a leftover of it."""
        self.objects[outcome] += 1
        self.size_bytes[outcome] += size
        self.examples.setdefault(outcome, f"{address!r} ({message})")

    def add(self, done: Tally) -> None:
        """Add the counts of a task."""
        self.parts.extend(done.parts)
        self.back.extend(done.back)
        self.examples = done.examples | self.examples
        for name in ("objects", "size_bytes", "left"):
            getattr(self, name).update(getattr(done, name))


def shares_of[P](run: PlannedRun[Any], runner: TaskRunner, parts: Sequence[P]) -> list[tuple[str, list[P]]]:
    """Share parts among tasks; returns the name of each task's files with its parts."""
    return [(f"{index:05d}", share) for index, share in enumerate(run.shares(runner, parts))]


def work_through[C, T](
    run: PlannedRun[Any],
    runner: TaskRunner,
    record: StepRecord,
    output: type[StepOutput],
    fn: PartitionFunction[C, T, Tally],
    config: Callable[[GateConfig], C],
    tasks: Sequence[T],
    unit: str,
    total: int,
) -> Tally:
    """Run tasks while this process watches, and note their ledger and figures. `fn`: the work of a task; it must pass
    the gate before each request."""
    watched = f"{output.STEP}/_watch/{record.attempt.number:03d}.json"
    gate = gate_of(run.plan.lease, watched)
    with watching(run.folder, run.state, watched, lambda: None, LOOK_SECONDS):
        results = run.spread(runner, output.STEP, fn, config(gate), tasks, unit, total)
    tally = Tally()
    for result in results:
        tally.add(result)
    record.parts.extend(tally.parts)
    return tally


def note_outcomes(
    record: StepRecord, tally: Tally, outcomes: Mapping[str, str], left: Sequence[str], text: str
) -> None:
    """Note figures, and set an error for unfinished objects."""
    record.counts.update({f"{outcome}_objects": tally.objects[outcome] for outcome in outcomes})
    count = sum(tally.objects[outcome] for outcome in left)
    if count:
        example = tally.examples.get(left[0], "")
        record.status = "partial"
        record.error = UnavailableError(
            text.format(left=f"{count:,}", example=f", such as {example}" if example else "")
        )
