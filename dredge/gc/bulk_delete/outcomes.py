"""Settle: after a sweep one row for each object says what became of it, and the figures follow from these rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.gc.check_limits import CheckLimitsOutput, why_held
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.partial import not_deleted
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.payload import from_json, to_json
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, round_robin
from dredge.storage import CHANGED, STORE_HOLD
from dredge.undo.protecting import NOT_COPIED, NOT_RESTORABLE, words_of_not_copied


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Objects with the same fate; a payload.

    Attributes:
        reason: why they are garbage.
        outcome: what became of them.
        code: of what kept them, or of the store's error; "" where there is none.
        objects: how many.
        size_bytes: their sizes together.
    """

    reason: str
    outcome: str
    code: str
    objects: int
    size_bytes: int

    @classmethod
    def of(cls, sums: Mapping[str, Any]) -> Group:
        """Make one of the sums that `ledger.settle_rows` gives."""
        return cls(
            reason=sums["reason"],
            outcome=sums["outcome"],
            code=sums["code"] or "",
            objects=sums["objects"],
            size_bytes=sums["bytes"],
        )

    @property
    def fate(self) -> tuple[str, str, str]:
        """What tells groups apart: reason, outcome, code."""
        return self.reason, self.outcome, self.code

    def with_more(self, more: Group) -> Group:
        """Add a group of the same fate."""
        return replace(
            self, objects=self.objects + more.objects, size_bytes=self.size_bytes + more.size_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An object that could not be deleted; a payload.

    Attributes:
        address: key relative to the namespace.
        code: of the store's error.
        message: the store's words.
    """

    address: str
    code: str | None
    message: str | None


class BulkDeleteOutput(StepOutput):
    """What became of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    @property
    def settled(self) -> list[PartInfo]:
        """Rows of the ledger, one for each candidate; none in a dry run."""
        return self.parts("")

    def settled_of(self, part: PartInfo) -> PartInfo:
        """Give the rows of the ledger for a part of the candidates; raises FormatError when there are none."""
        return self.part(f"{ledger.stem_of(part)}.parquet")

    @property
    def is_settled(self) -> bool:
        """Whether it is known what became of each candidate; not so in a dry run."""
        return "groups" in self.summary.details

    @property
    def groups(self) -> list[Group]:
        """Objects by their fate; empty in a dry run."""
        return [from_json(Group, value) for value in self.summary.details.get("groups", [])]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Some of the objects that could not be deleted, as JSON objects of `Failure`."""
        found: list[dict[str, Any]] = self.summary.details.get("failures", [])
        return found


ALIVE_AGAIN = "alive_again"

_WHY = {
    ALIVE_AGAIN: "named again since the mark",
    CHANGED: "it was written again, or its metadata was changed, since it was listed",
    STORE_HOLD: "the store refuses: it is on hold there, or a retention policy of the bucket has it",
    "named_by_kept": "Icechunk: a snapshot or manifest names it that nothing reaches, and that stays all the same",
    NOT_RESTORABLE: "its key ends with a slash, so some stores would refuse to put a copy of it back",
    NOT_COPIED: "it could not be copied, so its deletion could not have been taken back",
}


CODES = tuple(_WHY)
"""Every code of the sweep's own, beside those of holds."""


def why_kept(code: str) -> str:
    """Half a sentence for people; the code itself when nobody knows it."""
    return _WHY.get(code) or why_held(code)


_FAILURES_MAX = 20
_FATE = ("reason", "outcome", "code")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleConfig:
    """What all tasks need; a payload.

    Attributes:
        failures_max: failures that a task tells of.
    """

    failures_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleTask:
    """One task; a payload.

    Attributes:
        candidates: parts whose ledger is to be settled.
    """

    candidates: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleResult:
    """What a task found; a payload.

    Attributes:
        settled: parts of the ledger.
        groups: objects by fate, of each part.
        failures: a few of the objects that could not be deleted.
    """

    settled: list[PartInfo]
    groups: list[Group]
    failures: list[Failure]


def settle(
    run: Run, runner: TaskRunner, record: StepRecord, parts: Sequence[PartInfo], complete: bool
) -> DredgeError | None:
    """Settle the ledger of a sweep, and note its figures.

    Args:
        run: this run.
        runner: spreads the work.
        record: of the sweep.
        parts: of the candidates.
        complete: whether the sweep went through all of them, so that every object must have an outcome.

    Returns:
        The error to end with when objects could not be deleted.

    Raises:
        FormatError: the ledger does not fit the candidates.
    """
    tasks = [SettleTask(candidates=share) for share in round_robin(parts, run.num_tasks(runner, len(parts)))]
    config = SettleConfig(failures_max=_FAILURES_MAX)
    results = run.spread(runner, BulkDeleteOutput.STEP, settle_parts, config, tasks, "parts", len(parts))
    record.parts.extend(part for result in results for part in result.settled)
    failures = [failure for result in results for failure in result.failures]
    groups = _add_up(group for result in results for group in result.groups)
    totals = Counter(dict.fromkeys(ledger.OUTCOMES, 0))
    for group in groups:
        totals[group.outcome] += group.objects
    candidates = record.input(SubtractOutput).counts["candidates_objects"]
    record.add(
        deleted_bytes=sum(group.size_bytes for group in groups if group.outcome == ledger.DELETED),
        undone_objects=candidates - totals.total(),
    )
    record.counts.update({f"{outcome}_objects": count for outcome, count in totals.items()})
    record.details["groups"] = [to_json(group) for group in groups]
    record.details["failures"] = [to_json(failure) for failure in failures[:_FAILURES_MAX]]
    if complete and totals.total() != candidates:
        raise FormatError(
            f"run {run.plan.run_id}: the ledger tells of {totals.total():,} objects, there were"
            f" {candidates:,} candidates. Run the step again; it goes on where it stopped."
        )
    if totals[ledger.NOT_ADDRESSABLE]:
        record.warn(
            f"{totals[ledger.NOT_ADDRESSABLE]:,} objects have names that this store cannot delete exactly;"
            " kept"
        )
    if not_copied := sum(group.objects for group in groups if group.code == NOT_COPIED):
        record.warn(words_of_not_copied(not_copied))
    return _failure(run, totals, groups, failures) if totals[ledger.FAILED] else None


def _add_up(groups: Iterable[Group]) -> list[Group]:
    totals: dict[tuple[str, str, str], Group] = {}
    for group in groups:
        known = totals.get(group.fate)
        totals[group.fate] = group if known is None else known.with_more(group)
    return [totals[fate] for fate in sorted(totals)]


def _failure(
    run: Run, totals: Counter[str], groups: Iterable[Group], failures: Sequence[Failure]
) -> DredgeError:
    # Of all that failed, not only of those that are named: one that may pass is worth another try.
    codes = {group.code for group in groups if group.outcome == ledger.FAILED}
    text = (
        f"run {run.plan.run_id}: {totals[ledger.FAILED]:,} objects could not be deleted"
        f" ({', '.join(sorted(codes))}), such as {failures[0].address!r}; {totals[ledger.DELETED]:,} were."
    )
    return not_deleted(text, codes, totals[ledger.DELETED])


@partition_function
def settle_parts(run: WorkerRun, config: SettleConfig, task: SettleTask) -> SettleResult:
    """Write the ledger of some parts with one row for each object."""
    settled: list[PartInfo] = []
    groups: list[Group] = []
    failures: list[Failure] = []
    for part in task.candidates:
        rows = _best(run.folder, part)
        found = ledger.settle_rows(run.folder, part, rows, _FATE, config.failures_max)
        settled.append(found.part)
        groups.extend(map(Group.of, found.groups))
        failures.extend(Failure(**failure) for failure in found.failures)
    return SettleResult(settled=settled, groups=groups, failures=failures)


def _best(folder: RunFolder, part: PartInfo) -> pa.Table:
    """The best outcome of each object of a part."""
    rows = ledger.best(ledger.read_raw(folder, ledger.stem_of(part)))
    candidates = folder.read_part(part, ["address"])["address"].combine_chunks()
    if not pc.all(pc.is_in(rows["address"], candidates), min_count=0).as_py():
        raise FormatError(
            f"the ledger of {part.name} names objects that were no candidates. Start a new run."
        )
    return rows
