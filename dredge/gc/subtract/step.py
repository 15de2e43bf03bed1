"""Subtract: compare the listing, and addresses from earlier runs, with the live set.

    candidates = { listed, or from an earlier run : hash outside the live set, in the store, older than the cutoff }

A candidate has the reason why it is garbage, and possibly a hold (`holds`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA, nested_folders
from dredge.gc.pending.known import note_list, read_before
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state import base_of
from dredge.gc.subtract.candidates import (
    REASONS,
    Candidates,
    SubtractConfig,
    SubtractOutput,
    Uploads,
    write_candidates,
)
from dredge.gc.subtract.earlier_runs import find_drift, look_into
from dredge.runs.limits import Figures
from dredge.runs.payload import PartInfo, StepSummary, from_json
from dredge.runs.pending.store import Stored
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import Hashes, read_hashes, split, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage.parallel import at_once
from dredge.undo.pins import Pin, active_pins, sets_of

_SHARDS = f"{SubtractOutput.STEP}/shards"


def subtract(run: Run, runner: TaskRunner) -> StepSummary:
    """Write the candidates of a run. Raises RefusedError: the store gives no time for an object, or another version
    wrote the live set; FormatError: a damaged file."""

    def read(inputs: Mapping[str, StepSummary]) -> _Read:
        with at_once() as ask:
            before = ask(read_before, run, ListCommittedOutput.of(inputs[ListCommittedOutput.STEP]))
            pins = active_pins(run.state, run.plan.created_at)
        return pins, before.result()

    ahead = Ahead(read)
    return run.step(
        SubtractOutput,
        lambda record: _subtract(run, runner, record, ahead.result(record.inputs)),
        ahead=ahead,
    )


type _Read = tuple[list[Pin], tuple[Stored, bool]]


def _subtract(run: Run, runner: TaskRunner, record: StepRecord, read: _Read) -> None:
    record.input(ListCommittedOutput).refuse_other_readings()
    listing = record.input(SliceListingOutput)
    rows = sum(part.rows for part in listing.listed)
    # The objects of an inventory are looked up in the store, like those of earlier runs.
    from_listing = [] if listing.from_inventory else listing.listed
    pins, before = read
    config = _config(run, record, pins)
    listed = _compare(run, runner, config, from_listing, sum(part.rows for part in from_listing))
    record.parts.extend(listed.parts)
    known = note_list(run, record, *before)
    looked_up = look_into(run, runner, record, config, known)
    record.parts.extend(looked_up.parts)
    found = listed + looked_up.candidates
    held = sum(found.by_hold.values(), Figures())
    record.counts.update(
        listed_objects=rows,
        live_objects=rows - listed.total.objects - looked_up.inventory_objects,
        live_bytes=listing.counts["old_bytes"] - listed.total.size_bytes - looked_up.inventory_bytes,
        earlier_objects=looked_up.asked_objects,
        gone_objects=looked_up.gone_objects,
        young_objects=looked_up.young_objects,
        candidates_objects=found.total.objects,
        candidates_bytes=found.total.size_bytes,
        held_objects=held.objects,
        held_bytes=held.size_bytes,
    )
    record.counts.update({f"{code}_objects": item.objects for code, item in sorted(found.by_hold.items())})
    record.details["reasons"] = {
        reason: found.by_reason[reason].to_details() for reason in REASONS if reason in found.by_reason
    }
    record.details["drift"] = find_drift(run, record, known)


def _config(run: Run, record: StepRecord, pins: Sequence[Pin]) -> SubtractConfig:
    committed = record.input(ListCommittedOutput)
    staged = record.input(MarkUncommittedOutput)
    record.details["pins"] = [pin.text for pin in pins]
    return SubtractConfig(
        settings=run.plan.config,
        live=committed.live,
        # With all staging records in the live set, no staged entry is hidden.
        head_sizes=() if staged.exact else committed.sizes,
        sizes_there=tuple(
            LocatedSet(run.plan.run_uri, from_json(ShardedSet, value)) for value in committed.sizes_there
        ),
        expired=committed.expired,
        pinned=sets_of(pins),
        uploads=Uploads.of(run.plan),
        nested=_nested(run, record),
    )


def _nested(run: Run, record: StepRecord) -> tuple[str, ...]:
    plan = run.plan
    found = record.input(SliceListingOutput).foreign_prefixes
    found |= {
        folder for folder in nested_folders(plan.repository, plan.namespaces) if folder.startswith(DATA)
    }
    # An optimized run lists few slices, so the prefixes of earlier runs count until a clean run.
    base = base_of(run)
    before = None if base is None else base.folder.read_output(SubtractOutput)
    if before is not None:
        found.update(before.nested)
    record.details["nested"] = sorted(found)
    return tuple(sorted(found))


class SubtractResult(Struct, frozen=True, kw_only=True):
    """The number of compared rows, and the candidates among them; a payload."""

    rows: int
    candidates: Candidates


def _compare(
    run: Run, runner: TaskRunner, config: SubtractConfig, parts: Sequence[PartInfo], rows: int
) -> Candidates:
    num_tasks = run.num_tasks_of(runner, len(parts), rows)
    values_min = run.plan.config.tuning.shared_live_values
    # Comparing by shard takes two more rounds of tasks, and writes and reads the hashes of the listing again; without,
    # each task reads the whole live set.
    if config.live.bits > 0 and (num_tasks - 1) * config.live.values > 3 * rows + values_min:
        config = replace(config, dead=find_dead(run, runner, config.live, parts))
    tasks = round_robin(parts, num_tasks)
    results = run.spread(runner, SubtractOutput.STEP, subtract_parts, config, tasks, "objects", rows)
    compared = sum(result.rows for result in results)
    if compared != rows:
        raise FormatError(
            f"{compared} of {rows} listed rows were compared. Nothing was deleted. Start a new run."
        )
    return sum((result.candidates for result in results), Candidates())


@partition_function
def subtract_parts(run: WorkerRun, config: SubtractConfig, listed: list[PartInfo]) -> SubtractResult:
    """Compare files of the listing with the live set, and write the candidates."""
    hashes = _read_hashes(run, listed)
    if config.dead is None:
        live = config.live.find(hashes)
    else:
        live = [~dead for dead in config.dead.find(run.folder, hashes)]
    tables = _chunks(run, listed, live, config.settings.tuning.candidate_rows)
    candidates = write_candidates(run.folder, config, tables, run.task)
    return SubtractResult(rows=sum(map(len, hashes)), candidates=candidates)


def _read_hashes(run: WorkerRun, listed: Sequence[PartInfo]) -> list[Hashes]:
    return [run.folder.read_part(part, ["hash"])["hash"].to_numpy() for part in listed]


def _chunks(
    run: WorkerRun, parts: Sequence[PartInfo], live: Sequence[npt.NDArray[np.bool_]], rows_max: int
) -> Iterator[pa.Table]:
    """The rows outside the live set, in tables of at most `rows_max` rows."""
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


def find_dead(run: Run, runner: TaskRunner, live: LiveSet, listed: Sequence[PartInfo]) -> ShardedSet:
    """The hashes of the listing outside the live set, compared by shard: no task reads more than its share."""
    shards: dict[int, list[PartInfo]] = defaultdict(list)
    for cut in _cut(run, runner, live.bits, listed):
        for shard, part in cut.shards.items():
            shards[shard].append(part)
    tasks = list(map(dict, run.shares(runner, sorted(shards.items()))))
    total = sum(part.rows for parts in shards.values() for part in parts)
    results = run.spread(runner, SubtractOutput.STEP, compare_shards, live, tasks, "hashes", total)
    compared = sum(result.values for result in results)
    if compared != total:
        raise FormatError(
            f"{compared} of {total} listed hashes were compared. Nothing was deleted. Start a new run."
        )
    return ShardedSet.of([part for result in results for part in result.dead], live.bits)


def _cut(run: Run, runner: TaskRunner, bits: int, listed: Sequence[PartInfo]) -> list[CutResult]:
    rows = sum(part.rows for part in listed)
    tasks = round_robin(listed, run.num_tasks_of(runner, len(listed), rows))
    found = run.spread(runner, SubtractOutput.STEP, cut_parts, bits, tasks, "objects", rows)
    cut = sum(result.rows for result in found)
    if cut != rows:
        raise FormatError(f"{cut} of {rows} listed rows were compared. Nothing was deleted. Start a new run.")
    return found


class CutResult(Struct, frozen=True, kw_only=True):
    """The number of rows, and a file of their sorted distinct hashes for each shard; a payload."""

    rows: int
    shards: dict[int, PartInfo]


@partition_function
def cut_parts(run: WorkerRun, bits: int, listed: list[PartInfo]) -> CutResult:
    """Cut the hashes of files of the listing into 2**bits shards."""
    hashes = _read_hashes(run, listed)
    shards = {
        shard: write_hashes(run.folder, f"{_SHARDS}/listed-{run.task}-{shard:04d}.u64", values)
        for shard, values in enumerate(split(unite(hashes), bits))
        if len(values)
    }
    return CutResult(rows=sum(map(len, hashes)), shards=shards)


class CompareResult(Struct, frozen=True, kw_only=True):
    """The number of compared hashes, and for each shard a file of those outside the live set; a payload."""

    values: int
    dead: list[PartInfo]


@partition_function
def compare_shards(run: WorkerRun, live: LiveSet, shards: dict[int, list[PartInfo]]) -> CompareResult:
    """Write the listed hashes of some shards outside the live set."""
    values = 0
    dead: list[PartInfo] = []
    for shard, parts in shards.items():
        listed = [read_hashes(run.folder, part) for part in parts]
        wanted = unite(listed)
        (is_live,) = live.find([wanted], its_shards_only=True)
        dead.append(write_hashes(run.folder, f"{_SHARDS}/dead-{shard:04d}.u64", wanted[~is_live]))
        values += sum(map(len, listed))
        run.progress.add(sum(map(len, listed)))
    return CompareResult(values=values, dead=dead)
