"""Subtract: what is listed, or known from an earlier run, and nothing live names. Reads numbers for the many, rows
for the few.

    candidates = { listed or known from earlier : hash not in live, in the store, older than the cutoff }

A row carries the reason why it is garbage, as far as anything tells, and what holds it nevertheless (`holds`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA, nested_folders
from dredge.gc.pending.known import note_list
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state.base import base_of
from dredge.gc.subtract import earlier_runs
from dredge.gc.subtract.candidates import (
    REASONS,
    Candidates,
    SubtractConfig,
    SubtractOutput,
    early_details,
    write_candidates,
)
from dredge.gc.subtract.earlier_runs import find_drift
from dredge.gc.subtract.holds import Uploads
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner, round_robin
from dredge.sets.hashes import read_hashes, split, unite, write_hashes
from dredge.sets.live import LiveSet, ShardedSet
from dredge.undo.pins import active_pins, sets_of


def subtract(run: Run, runner: TaskRunner) -> StepSummary:
    """Write the listed objects that nothing live names, each with a reason.

    Args:
        run: this run.
        runner: spreads the comparison.

    Raises:
        RefusedError: the store gives no time for an object, or another version found what is live.
        FormatError: a file is not as it was written.
    """
    return run.step(SubtractOutput, lambda record: _subtract(run, runner, record))


def _subtract(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    record.input(ListCommittedOutput).refuse_other_readings()
    listing, config = record.input(SliceListingOutput), _config(run, record)
    rows = sum(part.rows for part in listing.listed)
    # What an inventory names is looked up like all that is known from elsewhere than a listing.
    from_listing = [] if listing.from_inventory else listing.listed
    listed = _compare(run, runner, config, from_listing, sum(part.rows for part in from_listing))
    record.parts.extend(listed.parts)
    known = note_list(run, record)
    looked_up = earlier_runs.look_into(run, runner, record, config, known)
    record.parts.extend(looked_up.parts)
    found = listed + looked_up.candidates
    record.counts.update(
        listed_objects=rows,
        live_objects=rows - listed.objects - looked_up.inventory_objects,
        live_bytes=listing.counts["old_bytes"] - listed.size_bytes - looked_up.inventory_bytes,
        earlier_objects=looked_up.asked_objects,
        gone_objects=looked_up.gone_objects,
        young_objects=looked_up.young_objects,
        candidates_objects=found.objects,
        candidates_bytes=found.size_bytes,
        held_objects=sum(figures.objects for figures in found.by_hold.values()),
        held_bytes=sum(figures.size_bytes for figures in found.by_hold.values()),
    )
    record.counts.update({f"{code}_objects": held.objects for code, held in sorted(found.by_hold.items())})
    record.details["reasons"] = {
        reason: found.by_reason[reason].to_details() for reason in REASONS if reason in found.by_reason
    }
    record.details["early_deletion"] = early_details(found.early)
    record.details["drift"] = find_drift(run, record, known)


def _nested(run: Run, record: StepRecord) -> tuple[str, ...]:
    """What is kept because another repository lies there, or has left its files.

    An optimized run lists few slices, so what the runs before it saw counts until a clean run.
    """
    plan = run.plan
    found = record.input(SliceListingOutput).foreign_prefixes
    found |= {
        folder for folder in nested_folders(plan.repository, plan.namespaces) if folder.startswith(DATA)
    }
    base = base_of(run)
    summary = None if base is None else base.folder.read_summary(SubtractOutput.STEP)
    if summary is not None:
        found.update(SubtractOutput.of(summary).nested)
    record.details["nested"] = sorted(found)
    return tuple(sorted(found))


def _config(run: Run, record: StepRecord) -> SubtractConfig:
    committed = record.input(ListCommittedOutput)
    # Where everything that any branch has staged was read and is live, nothing that is staged can be hidden.
    staged = record.input(MarkUncommittedOutput)
    pins = active_pins(run.state, run.plan.created_at)
    record.details["pins"] = [pin.text for pin in pins]
    return SubtractConfig(
        settings=run.plan.config,
        live=committed.live,
        head_sizes=() if staged.exact else committed.sizes,
        expired=committed.expired,
        pinned=sets_of(pins),
        as_of=run.plan.created_at,
        uploads=Uploads.of(run.plan),
        nested=_nested(run, record),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtractTask:
    """Some parts of the listing; a payload.

    Attributes:
        name: of the files that the task writes.
        listed: rows of objects.
    """

    name: str
    listed: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtractResult:
    """What a task found; a payload.

    Attributes:
        rows: that it compared.
        candidates: that it wrote.
    """

    rows: int
    candidates: Candidates


def _compare(
    run: Run, runner: TaskRunner, config: SubtractConfig, parts: Sequence[PartInfo], rows: int
) -> Candidates:
    num_tasks, values_min = run.num_tasks(runner, len(parts)), run.plan.config.tuning.shared_live_values
    if is_worth_it(config.live, rows, num_tasks, values_min):
        config = replace(config, dead=find_dead(run, runner, config.live, parts))
    shares = round_robin(parts, num_tasks)
    tasks = [SubtractTask(name=f"{index:05d}", listed=share) for index, share in enumerate(shares)]
    results = run.spread(runner, SubtractOutput.STEP, subtract_parts, config, tasks, "objects", rows)
    compared = sum(result.rows for result in results)
    if compared != rows:
        raise FormatError(f"{compared} rows were compared, {rows} were listed. Nothing was deleted.")
    return sum((result.candidates for result in results), Candidates())


@partition_function
def subtract_parts(run: WorkerRun, config: SubtractConfig, task: SubtractTask) -> SubtractResult:
    """Compare some parts of the listing with the live set."""
    hashes = [run.folder.read_part(part, ["hash"])["hash"].to_numpy() for part in task.listed]
    if config.dead is None:
        live = config.live.find(hashes)
    else:
        live = [~dead for dead in config.dead.find(run.folder, hashes)]
    tables = _chunks(run, task.listed, live, config.settings.tuning.candidate_rows)
    candidates = write_candidates(run.folder, config, tables, task.name)
    return SubtractResult(rows=sum(map(len, hashes)), candidates=candidates)


def _chunks(
    run: WorkerRun, parts: Sequence[PartInfo], live: Sequence[npt.NDArray[np.bool_]], rows_max: int
) -> Iterator[pa.Table]:
    """The rows that are not live, in tables of bounded length."""
    waiting: list[pa.Table] = []
    count = 0
    for part, answer in zip(parts, live, strict=True):
        run.progress.add(part.rows)
        if answer.all():
            continue
        rows = run.folder.read_part(part).filter(pa.array(~answer))
        waiting.append(rows)
        count += rows.num_rows
        while count >= rows_max:
            whole = pa.concat_tables(waiting, promote_options="default")
            yield whole.slice(0, rows_max).combine_chunks()
            waiting, count = [whole.slice(rows_max)], count - rows_max
    if count:
        yield pa.concat_tables(waiting, promote_options="default").combine_chunks()


_FOLDER = f"{SubtractOutput.STEP}/shards"


def is_worth_it(live: LiveSet, listed_rows: int, num_tasks: int, values_min: int) -> bool:
    """Whether comparing shard by shard reads and writes so much less that two more rounds pay.

    Args:
        live: what every task would have to read.
        listed_rows: rows of the listing; their hashes are read, written and read again.
        num_tasks: tasks that share the listing.
        values_min: hashes that two rounds of tasks cost.
    """
    return live.bits > 0 and (num_tasks - 1) * live.values > 3 * listed_rows + values_min


def find_dead(run: Run, runner: TaskRunner, live: LiveSet, listed: Sequence[PartInfo]) -> ShardedSet:
    """Find the hashes of the listing that are not live.

    Args:
        run: this run.
        runner: spreads the tasks.
        live: hashes of every address that is live.
        listed: parts of the listing.

    Raises:
        FormatError: not everything that was listed was compared.
    """
    shards: dict[int, list[PartInfo]] = defaultdict(list)
    for cut in _cut(run, runner, live.bits, listed):
        for shard, part in cut.shards.items():
            shards[shard].append(part)
    todo = [ShardTodo(shard=shard, listed=parts) for shard, parts in sorted(shards.items())]
    tasks = [CompareTask(shards=share) for share in round_robin(todo, run.num_tasks(runner, len(todo)))]
    total = sum(part.rows for parts in shards.values() for part in parts)
    config = CompareConfig(live=live)
    results = run.spread(runner, SubtractOutput.STEP, compare_shards, config, tasks, "hashes", total)
    compared = sum(result.values for result in results)
    if compared != total:
        raise FormatError(f"{compared} hashes were compared, {total} were listed. Nothing was deleted.")
    return ShardedSet.of([part for result in results for part in result.dead], live.bits)


def _cut(run: Run, runner: TaskRunner, bits: int, listed: Sequence[PartInfo]) -> list[CutResult]:
    shares = round_robin(listed, run.num_tasks(runner, len(listed)))
    tasks = [CutTask(name=f"{index:05d}", listed=share) for index, share in enumerate(shares)]
    rows = sum(part.rows for part in listed)
    found = run.spread(runner, SubtractOutput.STEP, cut_parts, CutConfig(bits=bits), tasks, "objects", rows)
    cut = sum(result.rows for result in found)
    if cut != rows:
        raise FormatError(f"{cut} rows were compared, {rows} were listed. Nothing was deleted.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CutConfig:
    """What all tasks need; a payload.

    Attributes:
        bits: there are 2**bits shards.
    """

    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """Some parts of the listing; a payload.

    Attributes:
        name: of the files that the task writes.
        listed: rows of objects.
    """

    name: str
    listed: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResult:
    """What a task wrote; a payload.

    Attributes:
        rows: that it read.
        shards: sorted distinct hashes of these, a file for each shard that has any.
    """

    rows: int
    shards: dict[int, PartInfo]


@partition_function
def cut_parts(run: WorkerRun, config: CutConfig, task: CutTask) -> CutResult:
    """Cut the hashes of some parts of the listing into shards."""
    hashes = [run.folder.read_part(part, ["hash"])["hash"].to_numpy() for part in task.listed]
    shards = {
        shard: write_hashes(run.folder, f"{_FOLDER}/listed-{task.name}-{shard:04d}.u64", values)
        for shard, values in enumerate(split(unite(hashes), config.bits))
        if len(values)
    }
    return CutResult(rows=sum(map(len, hashes)), shards=shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareConfig:
    """What all tasks need; a payload.

    Attributes:
        live: hashes of every address that is live.
    """

    live: LiveSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTodo:
    """A shard of what was listed; a payload.

    Attributes:
        shard: its number.
        listed: files of hashes.
    """

    shard: int
    listed: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTask:
    """Some shards; a payload.

    Attributes:
        shards: of what was listed.
    """

    shards: list[ShardTodo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """What a task found; a payload.

    Attributes:
        values: hashes that it read.
        dead: those of them that are not live, a file for each shard.
    """

    values: int
    dead: list[PartInfo]


@partition_function
def compare_shards(run: WorkerRun, config: CompareConfig, task: CompareTask) -> CompareResult:
    """Write the hashes of some shards that are not live."""
    values = 0
    dead: list[PartInfo] = []
    for todo in task.shards:
        listed = [read_hashes(run.folder, part) for part in todo.listed]
        wanted = unite(listed)
        (live,) = config.live.find([wanted], its_shards_only=True)
        dead.append(write_hashes(run.folder, f"{_FOLDER}/dead-{todo.shard:04d}.u64", wanted[~live]))
        values += sum(map(len, listed))
        run.progress.add(sum(map(len, listed)))
    return CompareResult(values=values, dead=dead)
