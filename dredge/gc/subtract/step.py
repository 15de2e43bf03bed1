"""Subtract: what is listed, or known from an earlier run, and nothing live names. Reads numbers for the many, rows
for the few.

    candidates = { listed or known from earlier : hash not in live, in the store, older than the cutoff }

A row carries the reason why it is garbage, as far as anything tells, and what holds it nevertheless (`holds`).
"""

from __future__ import annotations

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
from dredge.gc.state import base_of
from dredge.gc.subtract import by_shard, earlier_runs
from dredge.gc.subtract.classify import Candidates, SubtractConfig, write_candidates
from dredge.gc.subtract.drift import find_drift
from dredge.gc.subtract.early_deletion import early_details
from dredge.gc.subtract.output import SubtractOutput
from dredge.gc.subtract.reasons import REASONS
from dredge.gc.subtract.upload_parts import Uploads
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
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
    if by_shard.is_worth_it(config.live, rows, num_tasks, values_min):
        config = replace(config, dead=by_shard.find_dead(run, runner, config.live, parts))
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
