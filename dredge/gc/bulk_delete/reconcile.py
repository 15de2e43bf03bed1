"""Settle: after a sweep one row for each object says what became of it, and the figures follow from these rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.gc.bulk_delete.output import BulkDeleteOutput, Failure, Group
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.failures import not_deleted
from dredge.runs.folder import RunFolder
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.undo.protecting import NOT_COPIED, words_of_not_copied

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
