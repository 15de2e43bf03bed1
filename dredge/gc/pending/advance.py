"""Advances the pending list by what a mark found, shard by shard.

    few rows     one task reads all candidates and the whole list
    many rows    tasks cut the candidates into shards by folder, then tasks advance a shard each; where the number of
                 shards changes, the list is cut, too

What lies in one folder is in one shard, so that a day's work changes few of them. A part whose rows are as they were is
named again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import batched

import numpy as np
import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.check_limits import CheckLimitsOutput, HoldFiles, Holds
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.pending import found as reading
from dredge.gc.pending.found import Sources
from dredge.gc.pending.gone import Gone
from dredge.gc.pending.known import Known
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput, folders_of
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.pending.figures import Waits
from dredge.runs.pending.rows import FOUND, PENDING, Turn, advance, changes
from dredge.runs.pending.store import same_or_written
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner, TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import Hashes, contains, shard_of, unite, write_hashes
from dredge.sets.live import LiveSet

_STEP = CheckLimitsOutput.STEP
ONE_TASK_ROWS = 500_000
"""Up to so many rows, one task in the driver advances the list: cutting and starting tasks takes longer."""
SHARD_ROWS = 100_000
"""Rows of a shard, about, where there are more."""
_BITS_MAX = 12
_AT_ONCE = 32
"""Shards whose hashes are looked for in the live set at once, which is read as often."""
_TELLING = ["hash", "size", "last_modified", "status", "since"]
"""Columns of the list that tell whether a row stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceConfig:
    """What every task needs; a payload.

    Attributes:
        turn: the run.
        live: hashes of every address that is live.
        holds: what was proved about candidates that are held.
        gone: what the run deleted that left the state.
        writes: whether the mark leaves a list; else it is only counted.
    """

    turn: Turn
    live: LiveSet
    holds: HoldFiles
    gone: Gone
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTodo:
    """A shard; a payload.

    Attributes:
        shard: its number.
        found: what the mark found there.
        before: files of rows of the list: in the folder of lease and index, unless they were cut.
    """

    shard: int
    found: Sources
    before: list[PartInfo] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceTask:
    """Some shards; a payload.

    Attributes:
        shards: to be advanced.
    """

    shards: list[ShardTodo]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceResult:
    """What became of some shards; a payload.

    Attributes:
        rows: candidates that were read.
        parts: files of the new list, by number of the shard; none for one without rows.
        confirmed: files of hashes of candidates that have waited.
        waits: figures.
        unread: sentences about files of the list that could not be read.
    """

    rows: int = 0
    parts: dict[int, PartInfo] = field(default_factory=dict)
    confirmed: list[PartInfo] = field(default_factory=list)
    waits: Waits = field(default_factory=Waits)
    unread: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Advanced:
    """The list after a mark.

    Attributes:
        bits: there are 2**bits shards.
        parts: files of rows by number of the shard.
        confirmed: files of hashes of candidates that have waited.
        waits: figures.
    """

    bits: int
    parts: dict[int, PartInfo]
    confirmed: list[PartInfo]
    waits: Waits


def advance_list(
    run: Run, runner: TaskRunner, record: StepRecord, known: Known, holds: HoldFiles, writes: bool
) -> Advanced:
    """Advance the list by the candidates of a run, and find those that have waited.

    Args:
        run: this run; its mark is complete, and nothing more is read of the world for it.
        runner: spreads the work.
        record: of check_limits; takes warnings.
        known: the list before.
        holds: what was proved about candidates that are held.
        writes: whether the mark leaves a list; else it is only counted.

    Raises:
        FormatError: not all candidates were compared, or an optimized run cannot read the list.
    """
    candidates, committed = record.input(SubtractOutput), record.input(ListCommittedOutput)
    config = AdvanceConfig(
        turn=_turn(run, known),
        live=committed.live,
        holds=holds,
        gone=Gone.of(run),
        writes=writes,
    )
    found = Sources(candidates=candidates.candidates, young=candidates.young)
    total = found.rows + (0 if known.pending is None else known.pending.rows)
    bits = choose_bits(total, 0 if known.pending is None else known.pending.bits)
    todo = _shards(run, runner, record, config, known, found, bits)
    if bits == 0:
        runner = LocalRunner()
    tasks = [AdvanceTask(shards=share) for share in round_robin(todo, run.num_tasks(runner, len(todo)))]
    results = run.spread(runner, _STEP, advance_shards, config, tasks, "objects", found.rows)
    compared = sum(result.rows for result in results)
    if compared != found.rows:
        raise FormatError(
            f"{compared} candidates were compared with the pending list, there are {found.rows}. Nothing was deleted."
        )
    for text in (text for result in results for text in result.unread):
        record.warn(text)
    return Advanced(
        bits=bits,
        parts={shard: part for result in results for shard, part in result.parts.items()},
        confirmed=[part for result in results for part in result.confirmed],
        waits=sum((result.waits for result in results), Waits()),
    )


def choose_bits(rows: int, before: int) -> int:
    """Choose how finely the list is cut: as it is, unless the shards become much too large or small.

    Args:
        rows: of the list before, and what was found.
        before: bits of the list before.
    """
    if rows <= ONE_TASK_ROWS:
        return 0
    if before and SHARD_ROWS // 8 <= rows >> before <= SHARD_ROWS * 4:
        return before
    return min(_BITS_MAX, max(1, (rows // SHARD_ROWS).bit_length()))


def _turn(run: Run, known: Known) -> Turn:
    plan = run.plan
    inventory_tells = plan.inventory is None or plan.inventory.created_at is not None
    return Turn(
        run_id=plan.run_id,
        marked_at=plan.created_at,
        now=run.store_now(),
        cutoff=plan.cutoff,
        min_age=timedelta(seconds=plan.config.min_age_seconds),
        grace=known.grace,
        waits=plan.config.waits,
        lists_all=plan.mode == CLEAN and inventory_tells,
        state_of=None if plan.state is None else plan.state.run_id,
    )


def _shards(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    config: AdvanceConfig,
    known: Known,
    found: Sources,
    bits: int,
) -> list[ShardTodo]:
    pending = known.pending
    if bits == 0:  # one task reads all shards, also those of a list that shrank
        return [ShardTodo(shard=0, found=found, before=known.parts)]
    cut = defaultdict[int, list[PartInfo]](list)
    before = defaultdict[int, list[PartInfo]](list)
    same = pending is not None and pending.bits == bits
    sources = [Sources(candidates=[part]) for part in found.candidates]
    sources += [Sources(young=[part]) for part in found.young]
    if not same:
        sources += [Sources(before=[part]) for part in known.parts]
    shares = round_robin(sources, run.num_tasks(runner, len(sources)))
    tasks = [CutTask(name=f"{index:05d}", sources=share) for index, share in enumerate(shares)]
    results = run.spread(
        runner, _STEP, cut_sources, CutConfig(bits=bits, config=config), tasks, "objects", None
    )
    for result in results:
        for text in result.unread:
            record.warn(text)
        for shard, part in result.found.items():
            cut[shard].append(part)
        for shard, part in result.before.items():
            before[shard].append(part)
    if same and pending is not None:
        before.update({shard: [part] for shard, part in pending.parts.items()})
    return [
        ShardTodo(
            shard=shard,
            found=Sources(cut=cut[shard], before=[] if same else before[shard]),
            before=before[shard] if same else [],
        )
        for shard in sorted(cut.keys() | before.keys())
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutConfig:
    """What every task needs; a payload.

    Attributes:
        bits: there are 2**bits shards.
        config: of the tasks that advance them.
    """

    bits: int
    config: AdvanceConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """Some sources; a payload.

    Attributes:
        name: of the files that the task writes.
        sources: candidates, young objects, and the list.
    """

    name: str
    sources: list[Sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResult:
    """What a task wrote; a payload.

    Attributes:
        found: rows of what was found, by number of the shard.
        before: rows of the list, by number of the shard.
        unread: sentences about files of the list that could not be read.
    """

    found: dict[int, PartInfo]
    before: dict[int, PartInfo]
    unread: list[str]


@partition_function
def cut_sources(run: WorkerRun, config: CutConfig, task: CutTask) -> CutResult:
    """Cut some sources into shards by the folders of objects."""
    holds = reading.plain(Holds.of(run.folder, config.config.holds))
    found = [table for source in task.sources for table in source.read_found(run.folder, holds)]
    before, unread = _read_list(
        run, [part for source in task.sources for part in source.before], config.config
    )
    return CutResult(
        found=dict(_cut(run.folder, found, config.bits, f"found-{task.name}", FOUND)),
        before=dict(_cut(run.folder, before, config.bits, f"before-{task.name}", PENDING)),
        unread=unread,
    )


def _read_list(
    run: WorkerRun, parts: Sequence[PartInfo], config: AdvanceConfig
) -> tuple[list[pa.Table], list[str]]:
    """Rows of the list, and sentences about files that could not be read."""
    state, rows, unread = RunFolder(run.open_state(), "the pending list"), list[pa.Table](), list[str]()
    for part in parts:
        try:
            rows.append(state.read_part(part))
        except FormatError as error:
            if not config.turn.lists_all:
                raise  # rows that only the list knows would be forgotten
            unread.append(f"some objects wait anew: a part of the pending list cannot be read ({error})")
    return rows, unread


def _cut(
    folder: RunFolder, tables: Sequence[pa.Table], bits: int, name: str, schema: pa.Schema
) -> Iterator[tuple[int, PartInfo]]:
    rows = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
    shards = shard_of(hash64(folders_of(rows["address"])), bits)
    for shard in np.unique(shards).tolist():
        own = rows.filter(pa.array(shards == shard))
        yield shard, folder.write_table(f"{_STEP}/cut", shard, own, name)


@partition_function
def advance_shards(run: WorkerRun, config: AdvanceConfig, task: AdvanceTask) -> AdvanceResult:
    """Advance some shards of the list, and write what changed."""
    holds = reading.plain(Holds.of(run.folder, config.holds))
    total = AdvanceResult()
    quiet = {
        shard: result
        for some in batched(task.shards, _AT_ONCE)
        for shard, result in _quiet_shards(run, config, some).items()
    }
    for todo in task.shards:
        one = quiet.get(todo.shard) or _advance_shard(run, config, holds, todo)
        run.progress.add(one.rows)
        total = AdvanceResult(
            rows=total.rows + one.rows,
            parts={**total.parts, **one.parts},
            confirmed=[*total.confirmed, *one.confirmed],
            waits=total.waits + one.waits,
            unread=[*total.unread, *one.unread],
        )
    return total


def _advance_shard(run: WorkerRun, config: AdvanceConfig, holds: Holds, todo: ShardTodo) -> AdvanceResult:
    turn = config.turn
    before, unread = _read_list(run, todo.before, config)
    before += run.folder.read_parts(todo.found.before)
    previous = pa.concat_tables([PENDING.empty_table(), *(rows.cast(PENDING) for rows in before)])
    previous = previous.combine_chunks()
    found = pa.concat_tables(
        [FOUND.empty_table(), *todo.found.read_found(run.folder, holds)]
    ).combine_chunks()
    hashes = previous["hash"].to_numpy()
    live = np.zeros(len(hashes), bool)
    if len(hashes):
        (live,) = config.live.find([hashes])
    advanced = advance(previous, found, live, config.gone.among(hashes), turn)
    return AdvanceResult(
        rows=found.num_rows,
        parts=_write(run, todo, previous, advanced.rows) if config.writes else {},
        confirmed=_write_confirmed(run.folder, todo.shard, found, advanced.confirmed),
        waits=Waits.of(advanced.rows, found, advanced.confirmed, turn),
        unread=unread,
    )


def _quiet_shards(
    run: WorkerRun, config: AdvanceConfig, shards: Sequence[ShardTodo]
) -> dict[int, AdvanceResult]:
    """Results of shards that stay as they are, as most do, by number: without a look at names, which are long."""
    state = RunFolder(run.open_state(), "the pending list")
    found, hashes = dict[int, AdvanceResult](), list[Hashes]()
    for todo in shards:
        if todo.found.rows or todo.found.before or len(todo.before) != 1:
            continue
        try:
            rows = state.read_part(todo.before[0], _TELLING)
        except FormatError:
            continue
        if not changes(rows, config.turn):
            parts = {todo.shard: todo.before[0]} if config.writes else {}
            found[todo.shard] = AdvanceResult(parts=parts, waits=Waits.of_rows(rows))
            hashes.append(rows["hash"].to_numpy())
    live = config.live.find(hashes) if hashes else []
    return {
        shard: result for (shard, result), some in zip(found.items(), live, strict=True) if not some.any()
    }


def _write(run: WorkerRun, todo: ShardTodo, previous: pa.Table, rows: pa.Table) -> dict[int, PartInfo]:
    known = todo.before[0] if len(todo.before) == 1 and not todo.found.before else None
    return same_or_written(run.open_state(), run.folder.call_label, todo.shard, rows, previous, known)


def _write_confirmed(folder: RunFolder, shard: int, found: pa.Table, confirmed: np.ndarray) -> list[PartInfo]:
    hashes = found["hash"].to_numpy()
    mine = unite([hashes[confirmed]])
    # Another object may have the hash of one that has waited: then both wait.
    mine = mine[~contains(unite([hashes[~confirmed]]), mine)]
    if not len(mine):
        return []
    return [write_hashes(folder, f"{_STEP}/confirmed-{shard:05d}.u64", mine)]
