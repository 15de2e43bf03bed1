"""Advances the pending list by the candidates of a mark, shard by shard.

    few rows     one task reads all candidates and the whole list
    many rows    tasks cut the candidates into shards by folder, then other tasks advance a shard each; the list is cut
                 again if the number of shards changes

A folder belongs to one shard, so the changes of a day are in few shards. Unchanged parts keep their file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import batched

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.gc.check_limits import CheckLimitsOutput, HoldFiles, Holds
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.pending.known import Gone, Known, created_at_of, life_of
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput, folders_of
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.pending.rows import FOUND, PENDING, YOUNG, PartFacts, Turn, Waits, advance
from dredge.runs.pending.store import PendingList, write_if_changed, write_list
from dredge.runs.run import StepRecord
from dredge.runs.tasks import LocalRunner, TaskRunner, WorkerRun, partition_function
from dredge.sets.hashes import Hashes, contains, shard_of, unite, write_hashes
from dredge.sets.live import LiveSet

_STEP = CheckLimitsOutput.STEP
ONE_TASK_ROWS = 500_000
"""Up to so many rows the driver advances the list itself: cutting and starting tasks takes longer."""
SHARD_ROWS = 100_000  # approximate rows of a shard
_BITS_MAX = 12
_AT_ONCE = 32  # shards compared with the live set at once; the live set is read for each such group
_TAKEN = ["address", "hash", "size", "etag", "last_modified"]


class Sources(Struct, frozen=True, kw_only=True):
    """Files of rows."""

    candidates: list[PartInfo] = field(default_factory=list)
    young: list[PartInfo] = field(default_factory=list)
    # rows of candidates or young objects of a shard (`FOUND`)
    cut: list[PartInfo] = field(default_factory=list)
    before: list[PartInfo] = field(default_factory=list)  # rows of the list, cut or to be cut

    @property
    def rows(self) -> int:
        """Number of found objects."""
        return sum(part.rows for part in (*self.candidates, *self.young, *self.cut))

    def read_found(self, folder: RunFolder, holds: Holds) -> Iterator[pa.Table]:
        """Read the found objects as rows of `FOUND`, with other holds than the wait."""
        for part in self.candidates:
            rows = folder.read_part(part, [*_TAKEN, "reason", "hold"])
            yield _as_found(rows, holds.codes_of(rows), rows["reason"])
        for part in self.young:
            rows = folder.read_part(part, _TAKEN)
            nulls = pa.nulls(rows.num_rows, pa.string())
            yield _as_found(rows, pa.array([YOUNG] * rows.num_rows, pa.string()), nulls)
        yield from folder.read_parts(self.cut)


def _as_found(rows: pa.Table, codes: pa.Array, reasons: pa.Array) -> pa.Table:
    columns = {name: rows[name] for name in _TAKEN}
    columns |= {"version_id": pa.nulls(rows.num_rows, pa.string()), "code": codes, "reason": reasons}
    return pa.Table.from_arrays([columns[item.name].cast(item.type) for item in FOUND], schema=FOUND)


class AdvanceConfig(Struct, frozen=True, kw_only=True):
    """Configuration of every task."""

    turn: Turn
    live: LiveSet  # hashes of all live addresses
    holds: HoldFiles  # results of the proofs about held candidates
    gone: Gone
    writes: bool  # whether the mark leaves a list; else it is only counted

    def read_holds(self, folder: RunFolder) -> Holds:
        """Read the holds other than the wait."""
        return replace(Holds.of(folder, self.holds), confirmed=None)


class ShardTodo(Struct, frozen=True, kw_only=True):
    """A shard to be advanced."""

    shard: int
    found: Sources
    # files of the list in the folder of lease and index; cut rows are in `found.before`
    before: list[PartInfo] = field(default_factory=list)
    facts: PartFacts | None = None  # about the only file of `before`; None if unknown


class Advanced(Struct, frozen=True, kw_only=True):
    """The list after a mark, or some shards of it."""

    bits: int = 0  # there are 2**bits shards
    rows: int = 0  # number of read candidates
    # files of the new list by shard; an empty shard has no file
    parts: dict[int, PartInfo] = field(default_factory=dict)
    facts: dict[int, PartFacts] = field(default_factory=dict)  # about each of these
    # files of hashes of the candidates after their wait
    confirmed: list[PartInfo] = field(default_factory=list)
    waits: Waits = field(default_factory=Waits)
    unread: list[str] = field(default_factory=list)  # warnings about unreadable files of the list

    def __add__(self, other: Advanced) -> Advanced:
        return Advanced(
            bits=self.bits or other.bits,
            rows=self.rows + other.rows,
            parts={**self.parts, **other.parts},
            facts={**self.facts, **other.facts},
            confirmed=[*self.confirmed, *other.confirmed],
            waits=self.waits + other.waits,
            unread=[*self.unread, *other.unread],
        )


def advance_list(
    run: Run, runner: TaskRunner, record: StepRecord, known: Known, holds: HoldFiles, writes: bool
) -> Advanced:
    """Advance the list by the candidates of a complete mark and their proofs, and find those after their wait;
    without `writes` the list is only counted."""
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
    tasks = run.shares(runner, todo)
    results = run.spread(runner, _STEP, advance_shards, config, tasks, "objects", found.rows)
    result = sum(results, Advanced(bits=bits))
    if result.rows != found.rows:
        raise FormatError(
            f"{result.rows} candidates were compared with the pending list, there are {found.rows}. Nothing was"
            " deleted."
        )
    for text in result.unread:
        record.warn(text)
    return result


def write_new_list(run: Run, record: StepRecord, known: Known, new: Advanced) -> None:
    """Write the list after a complete mark. Its parts are written, and the run holds the lease. Raises ConflictError:
    another run has left its list since."""
    plan, now = run.plan, run.store_now()
    run.check_right(now)
    pending = PendingList(
        subject=canonical_namespace(plan.namespace),
        life=life_of(created_at_of(record.input(ListCommittedOutput))),
        run_id=plan.run_id,
        marked_at=plan.created_at,
        left_at=now,
        bits=new.bits,
        parts=new.parts,
        facts=new.facts,
    )
    write_list(run.state, pending, known.etag)


def choose_bits(rows: int, before: int) -> int:
    """Choose the number of shards: as before, unless the shards become much too large or small."""
    if rows <= ONE_TASK_ROWS:
        return 0
    if before and SHARD_ROWS // 8 <= rows >> before <= SHARD_ROWS * 4:
        return before
    return min(_BITS_MAX, max(1, (rows // SHARD_ROWS).bit_length()))


def _turn(run: Run, known: Known) -> Turn:
    plan = run.plan
    dated = plan.inventory is None or plan.inventory.created_at is not None
    return Turn(
        run_id=plan.run_id,
        marked_at=plan.created_at,
        now=run.store_now(),
        cutoff=plan.cutoff,
        min_age=timedelta(seconds=plan.config.min_age_seconds),
        grace=known.grace,
        waits=plan.config.waits,
        lists_all=plan.mode == CLEAN and dated,
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
    if bits == 0:  # one task reads all shards, also those of a formerly larger list
        return [ShardTodo(shard=0, found=found, before=known.parts)]
    cut = defaultdict[int, list[PartInfo]](list)
    before = defaultdict[int, list[PartInfo]](list)
    same = pending is not None and pending.bits == bits
    sources = [Sources(candidates=[part]) for part in found.candidates]
    sources += [Sources(young=[part]) for part in found.young]
    if not same:
        sources += [Sources(before=[part]) for part in known.parts]
    tasks = run.shares(runner, sources)
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
            facts=pending.facts.get(shard) if same and pending is not None else None,
        )
        for shard in sorted(cut.keys() | before.keys())
    ]


class CutConfig(Struct, frozen=True, kw_only=True):
    """Configuration of every cutting task: 2**bits shards."""

    bits: int
    config: AdvanceConfig


class CutResult(Struct, frozen=True, kw_only=True):
    """Files of a cutting task by shard, and warnings about unreadable files of the list."""

    found: dict[int, PartInfo]
    before: dict[int, PartInfo]
    unread: list[str]


@partition_function
def cut_sources(run: WorkerRun, config: CutConfig, sources: list[Sources]) -> CutResult:
    """Cut sources into shards by folder."""
    holds = config.config.read_holds(run.folder)
    found = [table for source in sources for table in source.read_found(run.folder, holds)]
    before, unread = _read_list(run, [part for source in sources for part in source.before], config.config)
    return CutResult(
        found=dict(_cut(run.folder, found, config.bits, f"found-{run.task}", FOUND)),
        before=dict(_cut(run.folder, before, config.bits, f"before-{run.task}", PENDING)),
        unread=unread,
    )


def _read_list(
    run: WorkerRun, parts: Sequence[PartInfo], config: AdvanceConfig
) -> tuple[list[pa.Table], list[str]]:
    """Read rows of the list, and make warnings about unreadable files."""
    state, rows, unread = RunFolder(run.open_state(), "the pending list"), list[pa.Table](), list[str]()
    for part in parts:
        try:
            rows.append(state.read_part(part))
        except FormatError as error:
            if not config.turn.lists_all:
                raise  # an optimized run knows some objects only by the list
            unread.append(
                f"the wait of some objects starts again: the pending list has an unreadable part ({error})"
            )
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
def advance_shards(run: WorkerRun, config: AdvanceConfig, shards: list[ShardTodo]) -> Advanced:
    """Advance shards of the list and write the changed ones."""
    holds = config.read_holds(run.folder)
    total = Advanced()
    quiet = {
        shard: result
        for some in batched(shards, _AT_ONCE)
        for shard, result in _quiet_shards(run, config, some).items()
    }
    for todo in shards:
        one = quiet.get(todo.shard) or _advance_shard(run, config, holds, todo)
        run.progress.add(one.rows)
        total += one
    return total


def _advance_shard(run: WorkerRun, config: AdvanceConfig, holds: Holds, todo: ShardTodo) -> Advanced:
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
    parts, facts = dict[int, PartInfo](), PartFacts.of(advanced.rows)
    if config.writes:
        known = todo.before[0] if len(todo.before) == 1 and not todo.found.before else None
        label = run.folder.call_label
        parts = write_if_changed(run.open_state(), label, todo.shard, advanced.rows, previous, known)
    return Advanced(
        rows=found.num_rows,
        parts=parts,
        facts=dict.fromkeys(parts, facts),
        confirmed=_write_confirmed(run.folder, todo.shard, found, advanced.confirmed),
        waits=Waits.of(advanced.rows, facts, found, advanced.confirmed, turn),
        unread=unread,
    )


def _quiet_shards(run: WorkerRun, config: AdvanceConfig, shards: Sequence[ShardTodo]) -> dict[int, Advanced]:
    """Return the results of unchanged shards, which are most, by reading their hashes alone."""
    state = RunFolder(run.open_state(), "the pending list")
    found, hashes = dict[int, Advanced](), list[Hashes]()
    for todo in shards:
        facts = todo.facts
        if facts is None or todo.found.rows or todo.found.before or facts.changes(config.turn):
            continue
        (part,) = todo.before
        try:
            hashes.append(state.read_part(part, ["hash"])["hash"].to_numpy())
        except FormatError:
            continue
        kept = config.writes
        found[todo.shard] = Advanced(
            parts={todo.shard: part} if kept else {},
            facts={todo.shard: facts} if kept else {},
            waits=Waits.of_part(facts),
        )
    live = config.live.find(hashes) if hashes else []
    return {
        shard: result for (shard, result), some in zip(found.items(), live, strict=True) if not some.any()
    }


def _write_confirmed(folder: RunFolder, shard: int, found: pa.Table, confirmed: np.ndarray) -> list[PartInfo]:
    hashes = found["hash"].to_numpy()
    mine = unite([hashes[confirmed]])
    # If another object has the same hash, both wait.
    mine = mine[~contains(unite([hashes[~confirmed]]), mine)]
    if not len(mine):
        return []
    return [write_hashes(folder, f"{_STEP}/confirmed-{shard:05d}.u64", mine)]
