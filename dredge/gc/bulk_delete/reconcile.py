"""Settle: after a sweep one row for each object says what became of it, and the figures follow from these rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.gc.bulk_delete.output import BulkDeleteOutput, stem_of
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.partial import not_deleted
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, round_robin

_FAILURES_MAX = 20


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

    def to_details(self) -> dict[str, Any]:
        """As the summary has it."""
        return {"address": self.address, "code": self.code, "message": self.message}


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
) -> None:
    """Settle the ledger of a sweep, and note its figures.

    Args:
        run: this run.
        runner: spreads the work.
        record: of the sweep.
        parts: of the candidates.
        complete: whether the sweep went through all of them, so that every object must have an outcome.

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
    record.details["groups"] = [_group_details(group) for group in groups]
    record.details["failures"] = [failure.to_details() for failure in failures[:_FAILURES_MAX]]
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
    if totals[ledger.FAILED]:
        record.status = "partial"
        record.error = _failure(run, totals, failures)


def _add_up(groups: Iterable[Group]) -> list[Group]:
    totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for group in groups:
        figures = totals[group.reason, group.outcome, group.code]
        figures[0] += group.objects
        figures[1] += group.size_bytes
    return [
        Group(reason=reason, outcome=outcome, code=code, objects=objects, size_bytes=size_bytes)
        for (reason, outcome, code), (objects, size_bytes) in sorted(totals.items())
    ]


def _group_details(group: Group) -> dict[str, Any]:
    return {
        "reason": group.reason,
        "outcome": group.outcome,
        "code": group.code,
        "objects": group.objects,
        "bytes": group.size_bytes,
    }


def _failure(run: Run, totals: Counter[str], failures: Sequence[Failure]) -> DredgeError:
    codes = {str(failure.code) for failure in failures}
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
        settled.append(ledger.write_settled(run.folder, stem_of(part), rows))
        groups.extend(_groups(rows))
        failed = rows.filter(pc.equal(rows["outcome"], ledger.FAILED)).slice(0, config.failures_max)
        failures.extend(Failure(**row) for row in failed.select(["address", "code", "message"]).to_pylist())
    return SettleResult(settled=settled, groups=groups, failures=failures)


def _best(folder: RunFolder, part: PartInfo) -> pa.Table:
    """The best outcome of each object of a part."""
    rows = ledger.best(ledger.read_raw(folder, stem_of(part)))
    candidates = folder.read_part(part, ["address"])["address"].combine_chunks()
    if not pc.all(pc.is_in(rows["address"], candidates), min_count=0).as_py():
        raise FormatError(
            f"the ledger of {part.name} names objects that were no candidates. Start a new run."
        )
    return rows


def _groups(rows: pa.Table) -> list[Group]:
    sums = rows.group_by(["reason", "outcome", "code"]).aggregate([("size", "count"), ("size", "sum")])
    return [
        Group(
            reason=row["reason"],
            outcome=row["outcome"],
            code=row["code"] or "",
            objects=row["size_count"],
            size_bytes=row["size_sum"],
        )
        for row in sums.to_pylist()
    ]
