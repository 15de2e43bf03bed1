"""Deletes candidates in groups, through the gate, and settles the outcome of each: a row in the ledger, and the counts.

The only module of the collector with a deleter.

    candidates − done − held − pinned − live again → shuffled → groups of keys
                          → gate open? → not in a new commit → protect (undo) → delete → ledger

Holds come from `check_limits.holds`; held and live candidates go to the ledger as kept.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import DredgeError, FormatError
from dredge.gc.check_limits import CheckLimitsOutput, HoldFiles, Holds, why_held
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.subtract import NESTED, SubtractOutput, begin_with
from dredge.runs import ledger
from dredge.runs.clock import running_seconds
from dredge.runs.failures import not_deleted
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig
from dredge.runs.payload import Detail, NamedParts, PartInfo, StepOutput
from dredge.runs.run import StepRecord
from dredge.runs.sweep import DeletingTask
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function
from dredge.sets.hashes import Hashes, contains, read_hashes
from dredge.sets.live import LocatedSet, ShardedSet, in_any
from dredge.storage import CHANGED, STORE_HOLD, open_deleter
from dredge.storage.parallel import at_once
from dredge.undo.pins import PINNED
from dredge.undo.protecting import GROUP_KEYS, NOT_COPIED, NOT_RESTORABLE, protection, words_of_not_copied
from dredge.undo.ways import OFF, QUARANTINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Objects with the same reason, outcome and code; a payload."""

    reason: str
    outcome: str
    code: str  # of the hold, or of the store's error; "" for none
    objects: int
    size_bytes: int

    @classmethod
    def of(cls, sums: Mapping[str, Any]) -> Group:
        """A group from the sums of `ledger.settle_rows`."""
        return cls(
            reason=sums["reason"],
            outcome=sums["outcome"],
            code=sums["code"] or "",
            objects=sums["objects"],
            size_bytes=sums["bytes"],
        )


class BulkDeleteOutput(StepOutput):
    """The outcome of each candidate."""

    STEP = ledger.STEP
    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)

    # Rows of the ledger, a row for each candidate; empty in a dry run.
    settled = NamedParts("")
    # Objects by reason, outcome and code; empty in a dry run.
    groups = Detail("groups", list[Group], default=[])
    # Some failed deletions: `address`, `code` and `message` of the store's error.
    failures: Detail[list[dict[str, Any]]] = Detail("failures", default=[])

    def settled_of(self, part: PartInfo) -> PartInfo:
        """The file of the ledger for a file of candidates; raises FormatError if it is missing."""
        return self.part(f"{ledger.part_stem(part)}.parquet")

    @property
    def is_settled(self) -> bool:
        """Whether the ledger is settled; not so in a dry run."""
        return "groups" in self.summary.details


ALIVE_AGAIN = "alive_again"

_WHY = {
    ALIVE_AGAIN: "referenced again since the mark",
    CHANGED: "it was overwritten, or its metadata changed, since it was listed",
    STORE_HOLD: "the store refuses: the object has a hold, or a retention policy of the bucket applies",
    "named_by_kept": "Icechunk: an unreachable snapshot or manifest references it, and is kept",
    NOT_RESTORABLE: "its key ends with a slash, so some stores would refuse to restore a copy",
    NOT_COPIED: "it could not be copied, so its deletion could not be undone",
}


# The codes of the sweep, in addition to those of holds.
CODES = tuple(_WHY)


def why_kept(code: str) -> str:
    """The text of a code in reports; the code itself when unknown."""
    return _WHY.get(code) or why_held(code)


_FAILURES_MAX = 20
_FATE = ("reason", "outcome", "code")


class SettleResult(Struct, frozen=True, kw_only=True):
    """Files of the ledger, groups of each file, and some failures; a payload."""

    settled: list[PartInfo]
    groups: list[Group]
    failures: list[dict[str, str | None]]


def settle(run: Run, runner: TaskRunner, record: StepRecord, complete: bool) -> DredgeError | None:
    """Settle the ledger of a sweep, and count its outcomes; after a complete sweep every candidate must have one.
    Returns the error to end with when objects could not be deleted."""
    parts = record.input(SubtractOutput).candidates
    tasks = run.shares(runner, parts)
    results = run.spread(
        runner, BulkDeleteOutput.STEP, settle_parts, _FAILURES_MAX, tasks, "parts", len(parts)
    )
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
    record.details["groups"] = groups
    record.details["failures"] = failures[:_FAILURES_MAX]
    if complete and totals.total() != candidates:
        raise FormatError(
            f"run {run.plan.run_id}: the ledger has {totals.total():,} objects for {candidates:,} candidates. Run the"
            " step again; it continues from the ledger."
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
        key = group.reason, group.outcome, group.code
        objects, size_bytes = (totals[key].objects, totals[key].size_bytes) if key in totals else (0, 0)
        totals[key] = replace(
            group, objects=objects + group.objects, size_bytes=size_bytes + group.size_bytes
        )
    return [totals[key] for key in sorted(totals)]


def _failure(
    run: Run, totals: Counter[str], groups: Iterable[Group], failures: Sequence[Mapping[str, str | None]]
) -> DredgeError:
    # The codes of all failures, not only of the examples: one retryable code is worth another try.
    codes = {group.code for group in groups if group.outcome == ledger.FAILED}
    text = (
        f"run {run.plan.run_id}: {totals[ledger.FAILED]:,} objects could not be deleted ({', '.join(sorted(codes))}),"
        f" such as {failures[0]['address']!r}; {totals[ledger.DELETED]:,} were deleted."
    )
    return not_deleted(text, codes, totals[ledger.DELETED])


@partition_function
def settle_parts(run: WorkerRun, failures_max: int, candidates: list[PartInfo]) -> SettleResult:
    """Write the settled ledger of some files: a row for each object."""
    settled: list[PartInfo] = []
    groups: list[Group] = []
    failures: list[dict[str, str | None]] = []
    for part in candidates:
        rows = _best(run.folder, part)
        found = ledger.settle_rows(run.folder, part, rows, _FATE, failures_max)
        settled.append(found.part)
        groups.extend(map(Group.of, found.groups))
        failures.extend(found.failures)
    return SettleResult(settled=settled, groups=groups, failures=failures)


def _best(folder: RunFolder, part: PartInfo) -> pa.Table:
    rows = ledger.best(ledger.read_raw(folder, ledger.part_stem(part)))
    candidates = folder.read_part(part, ["address"])["address"].combine_chunks()
    if not pc.all(pc.is_in(rows["address"], candidates), min_count=0).as_py():
        raise FormatError(f"the ledger of {part.name} has objects that are no candidates. Start a new run.")
    return rows


# The default number of keys in flight of a deleter.
_FIRST_GROUP = 16_000


class SweepConfig(Struct, frozen=True, kw_only=True):
    """The config of a round of deleting; a payload."""

    gate: GateConfig
    turn: int  # number of the round
    delete_keys: int  # longest group of keys
    alive: list[ShardedSet]  # hashes found live since the mark
    holds: HoldFiles
    pinned: tuple[LocatedSet, ...] = ()  # hashes of restored objects
    undo: str = OFF  # the undo way
    nested: tuple[str, ...] = ()  # folders of other repositories


@partition_function
def sweep_parts(run: WorkerRun, config: SweepConfig, candidates: list[PartInfo]) -> bool:
    """Delete the candidates of some files, except live, held and done candidates; return whether the gate closed before
    the end."""
    protect = protection(config.undo, run.stores.store_uri, run.stores.run_uri)
    used = InUse(run.folder)
    deleter = open_deleter(run.stores.store_uri)
    deleting = DeletingTask(run, deleter, config.gate, config.turn, protect, used.codes_of, ALIVE_AGAIN)
    keys_max = min(GROUP_KEYS, config.delete_keys) if config.undo == QUARANTINE else config.delete_keys
    holds = Holds.of(run.folder, config.holds)
    with at_once() as ask:  # the first part is read beside the first check of the gate
        ask(deleting.is_open)
        first = [deleting.undone(part, DATA) for part in candidates[:1]]
    for part in candidates:
        rows = first.pop() if first else deleting.undone(part, DATA)
        kept = _codes_of_kept(run, config, holds, rows)
        deleting.keep(part, rows.filter(kept.is_valid()), kept.drop_null().to_pylist())
        doomed = _shuffled(rows.filter(kept.is_null()), f"{run.folder.run_id}/{ledger.part_stem(part)}")
        if not deleting.delete(part, _groups(doomed, keys_max, config.gate.trusted_seconds)):
            return True
    return False


class KeepConfig(Struct, frozen=True, kw_only=True):
    """The config of a sweep without deletions; a payload."""

    attempt: int
    fencing: int
    holds: HoldFiles


@partition_function
def keep_parts(run: WorkerRun, config: KeepConfig, candidates: list[PartInfo]) -> None:
    """Write the candidates of some files to the ledger as kept. Raises FormatError if one of them is not held."""
    holds = Holds.of(run.folder, config.holds)
    for part in candidates:
        rows = run.folder.read_part(part)
        codes = holds.codes_of(rows)
        if codes.null_count:
            raise FormatError(
                f"{part.name} has an object that is not held, and the guards counted none. Nothing was deleted."
                " Start a new run."
            )
        kept = [ledger.KEPT] * rows.num_rows
        found = ledger.rows_of(rows, kept, config.attempt, config.fencing, code=codes.to_pylist())
        ledger.write_raw(run.folder, ledger.part_stem(part), config.attempt, 0, 0, found)
        run.progress.add(rows.num_rows)


class InUse:
    """The hashes published by the driver (`watch.Published`), in a task."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._read: dict[str, Hashes] = {}

    def codes_of(self, parts: Sequence[PartInfo], rows: pa.Table) -> pa.StringArray:
        """The code of each candidate of a new commit; null for others."""
        self._read = {
            part.sha256: self._read[part.sha256]
            if part.sha256 in self._read
            else read_hashes(self._folder, part)
            for part in parts
        }
        wanted = rows["hash"].to_numpy()
        named = np.zeros(len(wanted), bool)
        for hashes in self._read.values():
            named |= contains(hashes, wanted)
        return pc.if_else(pa.array(named), ALIVE_AGAIN, pa.scalar(None, pa.string()))


def _codes_of_kept(run: WorkerRun, config: SweepConfig, holds: Holds, rows: pa.Table) -> pa.StringArray:
    """The code of each kept candidate; null for those to be deleted."""
    codes = holds.codes_of(rows)
    nested = begin_with(rows["address"], config.nested)
    codes = pc.if_else(pc.and_(pa.array(nested), pc.is_null(codes)), NESTED, codes)
    hashes = rows["hash"].to_numpy()
    (pinned,) = in_any(config.pinned, [hashes])
    codes = pc.if_else(pa.array(pinned), PINNED, codes)
    for found in config.alive:
        (again,) = found.find(run.folder, [hashes])
        codes = pc.if_else(pa.array(again), ALIVE_AGAIN, codes)
    return codes


def _shuffled(rows: pa.Table, seed: str) -> pa.Table:
    # Neighbours in name share the store's partitions, and would slow each other down.
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.take(pa.array(order, pa.int64())).combine_chunks()


def _groups(rows: pa.Table, keys_max: int, seconds: float) -> Iterator[pa.Table]:
    """Cut rows into groups of at most `keys_max` keys, each for about `seconds`: an open gate is trusted so long."""
    keys, start = min(_FIRST_GROUP, keys_max), 0
    while start < rows.num_rows:
        begun = running_seconds()
        yield rows.slice(start, keys)
        start += keys
        if running_seconds() - begun > seconds:
            keys = max(min(_FIRST_GROUP, keys_max), keys // 2)
        else:
            keys = min(keys_max, keys * 2)
