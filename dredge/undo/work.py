"""What restore and purge share: tasks that go through parts behind the gate, and what became of each object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import UnavailableError
from dredge.runs.gate import GateConfig
from dredge.runs.output import StepOutput
from dredge.runs.partition import PartitionFunction
from dredge.runs.perform import StepRecord
from dredge.runs.run import PlannedRun
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, round_robin
from dredge.runs.watch import watching
from dredge.undo.side_run import LOOK_SECONDS, gate_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a task did; a payload.

    Attributes:
        parts: of the ledger.
        objects: by outcome.
        size_bytes: by outcome.
        examples: address and message of one object of each outcome.
        left: objects of which something is left, by the run that deleted them.
        back: files in the folder of a pin, with the hashes of what may have come back.
    """

    parts: list[PartInfo]
    objects: dict[str, int]
    size_bytes: dict[str, int]
    examples: dict[str, str]
    left: dict[str, int] = field(default_factory=dict)
    back: list[PartInfo] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Counts what became of objects."""

    parts: list[PartInfo] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    left: Counter[str] = field(default_factory=Counter)
    back: list[PartInfo] = field(default_factory=list)

    def count(self, outcome: str, size: int, address: str, message: str) -> None:
        """Take one object, or one that was left of it."""
        self.objects[outcome] += 1
        self.size_bytes[outcome] += size
        self.examples.setdefault(outcome, f"{address!r} ({message})")

    def add(self, done: Done) -> None:
        """Take what a task did."""
        self.parts.extend(done.parts)
        self.objects.update(done.objects)
        self.size_bytes.update(done.size_bytes)
        self.left.update(done.left)
        self.back.extend(done.back)
        for outcome, example in done.examples.items():
            self.examples.setdefault(outcome, example)

    def done(self) -> Done:
        """As a payload."""
        return Done(
            parts=self.parts,
            objects=dict(self.objects),
            size_bytes=dict(self.size_bytes),
            examples=self.examples,
            left=dict(self.left),
            back=self.back,
        )


def shares_of[P](run: PlannedRun[Any], runner: TaskRunner, parts: Sequence[P]) -> list[tuple[str, list[P]]]:
    """Share parts among tasks; gives the name of each task's files with its parts."""
    shares = round_robin(parts, run.num_tasks(runner, len(parts)))
    return [(f"{index:05d}", share) for index, share in enumerate(shares)]


def work_through[C, T](
    run: PlannedRun[Any],
    runner: TaskRunner,
    record: StepRecord,
    output: type[StepOutput],
    fn: PartitionFunction[C, T, Done],
    config: Callable[[GateConfig], C],
    tasks: Sequence[T],
    unit: str,
    total: int,
) -> Tally:
    """Let tasks work while this process watches, and note their ledger and figures.

    Args:
        run: this run.
        runner: spreads the work.
        record: of the step.
        output: of the step.
        fn: what a task does; it must pass the gate before each request.
        config: the same for all tasks, made with what the gate looks at.
        tasks: one a call.
        unit: what is counted.
        total: of how many.

    Returns:
        What became of the objects.
    """
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
    """Note figures, and end with an error where something is left to do.

    Args:
        record: of the step.
        tally: what became of the objects.
        outcomes: all that there are.
        left: those that are tried again; the first one has examples.
        text: of the error, with places for `left` and `example`.
    """
    record.counts.update({f"{outcome}_objects": tally.objects[outcome] for outcome in outcomes})
    count = sum(tally.objects[outcome] for outcome in left)
    if count:
        example = tally.examples.get(left[0], "")
        record.status = "partial"
        record.error = UnavailableError(
            text.format(left=f"{count:,}", example=f", such as {example}" if example else "")
        )
