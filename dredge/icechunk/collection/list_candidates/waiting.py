"""Update the pending list: only garbage that has waited is a candidate.

    found now, the list before ──> the list after, and waited rows   shard 0: all kinds but chunks
      waiting snapshots and manifests keep their manifests and chunks
    found now, the list before ──> the list after, and waited rows   other shards: chunks, by the first bits of the
                                                                     hashes of their keys

Ids are never used again, so the run does not look for rows of the list in the store: a chunk in the list only (its
manifests were deleted before it) is a candidate as it is in the list. Objects that the run below this one deleted leave
the list.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import DredgeError, FormatError
from dredge.hashing import hash64
from dredge.icechunk.collection.list_candidates.listing import SCHEMA, write_rows
from dredge.icechunk.collection.outputs import FOUND, ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.pinned import with_needs
from dredge.icechunk.collection.run import Run, find_list
from dredge.icechunk.collection.witness.record import parse_known
from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.repository import FOLDERS, OBJECT_FOLDERS, is_old_column, names_of
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.pending.rows import FOUND as FOUND_ROWS
from dredge.runs.pending.rows import PENDING, YOUNG, Advanced, Mask, PartFacts, Turn, Waits, advance
from dredge.runs.pending.store import PendingList, Stored, read_rows, write_if_changed
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function
from dredge.runs.versions import CLEAN
from dredge.sets.hashes import contains, read_hashes, shard_of, unite, write_hashes
from dredge.sets.live import LocatedSet, ShardedSet, in_any
from dredge.storage import ObjectWriter
from dredge.storage.parallel import at_once

_STEP = ListCandidatesOutput.STEP
SHARD_ROWS = 500_000
"""Approximate number of rows in a shard of chunks."""
_FIGURES = {"found_now": "found_now", "waiting": "waiting", "candidates": "confirmed"}
"""Counts of the step, and the names of the list's figures."""


class WaitConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks."""

    turn: Turn
    bits: int
    found: dict[str, list[PartInfo]]
    before: dict[int, PartInfo]  # files of rows of the list before, by shard
    same: bool  # whether both lists have equal shards
    gone: tuple[LocatedSet, ...]  # hashes of the deletions of the run below this one
    asked: bool  # whether the run asked the store for the chunks
    candidate_rows: int
    writes: bool  # whether the mark leaves a list; else rows are only counted
    named: tuple[LocatedSet, ...] = ()


class WaitResult(Struct, frozen=True, kw_only=True):
    """Files of the new list by shard, files of waited candidates, figures by kind, and the number of compared rows."""

    parts: dict[int, PartInfo] = field(default_factory=dict)
    confirmed: list[PartInfo] = field(default_factory=list)
    waits: dict[str, Waits] = field(default_factory=dict)
    rows: int = 0


@partition_function
def advance_shards(run: WorkerRun, config: WaitConfig, shards: list[int]) -> WaitResult:
    """Update some shards of the list, and write the waited rows."""
    parts, written, waits, compared = dict[int, PartInfo](), list[PartInfo](), dict[str, Waits](), 0
    for shard in shards:
        rows, found, before, advanced = advance_shard(run.folder, run.open_state(), config, shard)
        run.progress.add(rows.num_rows)
        compared += rows.num_rows
        (named,) = in_any(config.named, [rows["hash"].to_numpy()], its_shards_only=True)
        confirmed = advanced.confirmed & ~named
        for kind, prefix in FOLDERS.items():
            own = _below(found, prefix)
            written += write_rows(
                run.folder,
                f"{kind}-{shard:04d}",
                rows.filter(pa.array(own & confirmed)),
                config.candidate_rows,
            )
            after = advanced.rows.filter(pa.array(_below(advanced.rows, prefix)))
            facts = PartFacts.of(after)
            figures = Waits.of(after, facts, found.filter(pa.array(own)), confirmed[own], config.turn)
            waits[kind] = waits.get(kind, Waits()) + figures
        if config.writes:
            known = config.before.get(shard) if config.same else None
            label = run.folder.call_label
            parts |= write_if_changed(run.open_state(), label, shard, advanced.rows, before, known)
    return WaitResult(parts=parts, confirmed=written, waits=waits, rows=compared)


def _below(rows: pa.Table, prefix: str) -> Mask:
    return np.asarray(pc.starts_with(rows["address"], prefix), bool)


def advance_shard(
    folder: RunFolder, state: ObjectWriter, config: WaitConfig, shard: int
) -> tuple[pa.Table, pa.Table, pa.Table, Advanced]:
    """Compare a shard with the list; returns the found rows as candidates and as rows of a mark, the earlier list, and
    the updated rows."""
    kinds = ["chunks"] if shard else [kind for kind in FOLDERS if kind != "chunks"]
    parts = [part for kind in kinds for part in config.found[kind]]
    pieces = (_of_shard(folder.read_part(part), shard, config.bits) for part in parts)
    rows = pa.concat_tables(
        [SCHEMA.empty_table(), *(piece.cast(SCHEMA) for piece in pieces)]
    ).combine_chunks()
    lists = RunFolder(state, "the pending list")
    if config.same:
        known = [config.before[shard]] if shard in config.before else []
    else:
        known = [part for number, part in config.before.items() if bool(number) == bool(shard)]
    read = (_of_shard(read_rows(lists, [part]), shard, config.bits) for part in known)
    before = pa.concat_tables([PENDING.empty_table(), *read]).combine_chunks()
    previous = without(before, config.gone).sort_by("address").combine_chunks()
    columns = {name: rows[name] for name in ("address", "hash", "size", "etag", "last_modified", "reason")}
    columns |= dict.fromkeys(("version_id", "code"), pa.nulls(rows.num_rows, pa.string()))
    if shard and not config.asked:  # their time is an upper bound
        old = is_old_column(rows["last_modified"], config.turn.cutoff)
        columns["code"] = pc.if_else(pa.array(old), pa.scalar(None, pa.string()), YOUNG)
        columns["last_modified"] = pa.nulls(rows.num_rows, PENDING.field("last_modified").type)
    found = pa.table([columns[item.name] for item in FOUND_ROWS], schema=FOUND_ROWS)
    turn = config.turn if shard else replace(config.turn, lists_all=True)
    live = _live(folder, state, previous, found)
    return rows, found, before, advance(previous, found, live, np.zeros(previous.num_rows, bool), turn)


def _of_shard(rows: pa.Table, shard: int, bits: int) -> pa.Table:
    if not shard or not bits:
        return rows
    return rows.filter(pa.array(shard_of(rows["hash"].to_numpy(), bits) == shard - 1))


def without(rows: pa.Table, gone: Sequence[LocatedSet]) -> pa.Table:
    """Remove deleted objects."""
    (deleted,) = in_any(gone, [rows["hash"].to_numpy()], its_shards_only=True)
    return rows.filter(pa.array(~deleted))


def _live(folder: RunFolder, state: ObjectWriter, previous: pa.Table, found: pa.Table) -> Mask:
    live = np.zeros(previous.num_rows, bool)
    unseen = ~pc.is_in(previous["address"], found["address"].combine_chunks()).to_numpy()
    if not unseen.any():
        return live
    if (mark := folder.read_output(MarkOutput)) is None:
        raise FormatError(f"run {folder.run_id}: another try is repeating the mark. Nothing was deleted.")
    for kind, prefix in OBJECT_FOLDERS.items():
        mine = unseen & pc.starts_with(previous["address"], prefix).to_numpy()
        if not mine.any():
            continue
        ids, _ = hashes_of_names(names_of(kind, previous["address"].filter(pa.array(mine)).combine_chunks()))
        if kind == "chunks" and mark.counted is not None:
            (live[mine],) = mark.counted.find(RunFolder(state, folder.run_id), [ids], its_shards_only=True)
            continue
        parts = (
            [part for shard in mark.chunk_shards for part in shard] if kind == "chunks" else [mark.live(kind)]
        )
        for part in parts:
            live[mine] |= contains(read_hashes(folder, part), ids)
    return live


class Before(Struct, frozen=True, kw_only=True):
    """The pending list of earlier runs, the deletions of the base run, and the life of the repository."""

    stored: Stored
    gone: tuple[LocatedSet, ...]
    life: str

    @property
    def parts(self) -> Mapping[int, PartInfo]:
        """Files of rows by shard."""
        return {} if self.stored.pending is None else self.stored.pending.parts


def read_before(run: Run, record: StepRecord) -> Before:
    """Read the last run's pending list; warns if all waits begin again. Raises RefusedError: a newer version wrote
    it."""
    mark, plan = record.input(MarkOutput), run.plan
    if mark.known is None:  # a report on a planned expiration
        return Before(stored=Stored(), gone=(), life="")
    root = parse_known(run.folder.read_bytes(mark.known)).root
    life = "" if root is None else f"{root[0]} of {root[1]}"
    gone: tuple[LocatedSet, ...] = ()
    with at_once() as ask:
        deleted = ask(_gone, run)
        stored = find_list(run.state, plan.uri, run.store_now, life)
    problem = stored.problem
    if mark.known_is_damaged:
        problem = "the record of the last mark is damaged"
    elif stored.pending is None and plan.mode != CLEAN:
        problem = problem or "it is gone"
    try:
        gone = deleted.result()
    except DredgeError as error:
        problem = f"the deletions of the last run cannot be read ({error})"
    if problem:
        stored = Stored(etag=stored.etag, problem=problem)
        record.warn(f"all garbage waits again, because the pending list cannot be used: {problem}")
        record.details["waits_anew"] = problem
    return Before(stored=stored, gone=gone, life=life)


def _gone(run: Run) -> tuple[LocatedSet, ...]:
    if run.previous is None:
        return ()
    folder = run.previous.folder
    if (swept := folder.read_summary(ledger.STEP)) is None:
        return ()
    pieces = []
    for table in folder.read_parts(list(swept.parts), ["address", "outcome"]):
        done = pc.is_in(table["outcome"], pa.array([ledger.DELETED, ledger.MISSING]))
        pieces.append(unite([hash64(table["address"].filter(done))]))
    part = write_hashes(run.folder, f"{_STEP}/_gone.u64", unite(pieces))
    return (LocatedSet(run.folder.uri, ShardedSet(0, {0: part})),)


def find_waited(run: Run, runner: TaskRunner, record: StepRecord, before: Before) -> None:
    """Update the pending list with all found rows; rows that have waited long enough become candidates."""
    config = _config(run, record, before)
    if config.turn.waits and config.before:  # waiting files keep their manifests and chunks
        rows, _, _, advanced = advance_shard(run.folder, run.state, config, 0)
        waiting = rows["address"].filter(pa.array(~advanced.confirmed)).to_pylist()
        kept = with_needs(run, f"{_STEP}/_named_by_waiting", set(waiting), passes_archived=True)
        config = replace(config, named=(kept,))
    count = (1 << config.bits) + 1
    tasks = run.shares(runner, range(count))
    total = sum(record.counts.get(f"{kind}_candidates_objects", 0) for kind in FOLDERS)
    results = run.spread(runner, _STEP, advance_shards, config, tasks, "objects", total)
    record.parts += [part for result in results for part in result.confirmed]
    if sum(result.rows for result in results) != total:
        raise FormatError(f"{run.plan.uri}: some found objects were not compared with the pending list.")
    waits = {kind: sum((result.waits[kind] for result in results), Waits()) for kind in FOLDERS}
    by_kind = {kind: waits[kind].to_details(config.turn.grace) for kind in FOLDERS}
    for kind in (kind for kind in FOLDERS if f"{kind}_listed_objects" in record.counts):
        figures = by_kind[kind]
        for unit in ("objects", "bytes"):
            record.counts[f"{kind}_found_{unit}"] = record.counts.get(f"{kind}_candidates_{unit}", 0)
            for name, figure in _FIGURES.items():
                record.counts[f"{kind}_{name}_{unit}"] = figures[figure][unit]
    record.details["pending"] = sum(waits.values(), Waits()).to_details(config.turn.grace) | {
        "by_kind": {
            kind: {name: figures[name] for name in ("waiting", "first_deletion", "last_deletion")}
            for kind, figures in by_kind.items()
            if figures["waiting"]["objects"]
        }
    }
    if config.writes:
        pending = PendingList(
            subject=run.plan.uri.rstrip("/"),
            life=before.life,
            run_id=run.plan.run_id,
            marked_at=run.plan.created_at,
            left_at=config.turn.now,
            bits=config.bits,
            parts={shard: part for result in results for shard, part in result.parts.items()},
        )
        record.details["pending_list"] = [pending, before.stored.etag]


def _config(run: Run, record: StepRecord, before: Before) -> WaitConfig:
    plan, pending = run.plan, before.stored.pending
    start = f"{_STEP}/{FOUND}"
    found = {
        kind: [part for part in record.parts if part.name.startswith(f"{start}{kind}-")] for kind in FOLDERS
    }
    rows = sum(part.rows for part in found["chunks"]) + (0 if pending is None else pending.rows)
    bits = (rows // SHARD_ROWS).bit_length()
    inventory_tells = plan.inventory is None or plan.inventory.created_at is not None
    return WaitConfig(
        turn=Turn(
            run_id=plan.run_id,
            marked_at=plan.created_at,
            now=run.store_now(),
            cutoff=plan.cutoff,
            min_age=timedelta(seconds=plan.config.min_age_seconds),
            grace=plan.grace,
            # A report on a planned expiration shows all its deletions at once.
            waits=plan.config.waits and plan.config.after is None,
            lists_all=plan.mode == CLEAN and inventory_tells,
            state_of=None,
        ),
        bits=bits,
        found=found,
        before=dict(before.parts),
        same=pending is not None and pending.bits == bits,
        gone=before.gone,
        asked=run.base is None,
        candidate_rows=plan.config.tuning.candidate_rows,
        writes=record.input(MarkOutput).known is not None,
    )
