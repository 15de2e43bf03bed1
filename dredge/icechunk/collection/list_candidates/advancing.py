"""Advance shards of the pending list by what was found.

Shard 0 has all but the chunks, and the others have these, by the first bits of the hashes of their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.age import is_old_column
from dredge.icechunk.collection.kinds import FOLDERS, OBJECT_FOLDERS, names_of
from dredge.icechunk.collection.list_candidates.candidates import SCHEMA, write_rows
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.state.base import counts_folder
from dredge.icechunk.ids import hashes_of_names
from dredge.runs.folder import RunFolder
from dredge.runs.pending.figures import Waits
from dredge.runs.pending.rows import FOUND as FOUND_ROWS
from dredge.runs.pending.rows import PENDING, YOUNG, Advanced, Mask, Turn, advance
from dredge.runs.pending.store import read_rows, same_or_written
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import shard_of
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import ObjectWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitConfig:
    """What all tasks need; a payload.

    Attributes:
        turn: the run.
        bits: chunks are in 2**bits shards.
        found: files of what was found, by kind.
        before: files of rows of the list before, by number of the shard.
        same: whether these are cut as the new ones.
        gone: hashes of what the run deleted that left the state.
        asked: whether the store was asked for the chunks.
        candidate_rows: most rows of a part.
        writes: whether the mark leaves a list; else it is only counted.
        named: what files name that wait.
    """

    turn: Turn
    bits: int
    found: dict[str, list[PartInfo]]
    before: dict[int, PartInfo]
    same: bool
    gone: tuple[LocatedSet, ...]
    asked: bool
    candidate_rows: int
    writes: bool
    named: tuple[LocatedSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTask:
    """Some shards; a payload.

    Attributes:
        shards: their numbers.
    """

    shards: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """What became of some shards; a payload.

    Attributes:
        parts: files of the new list, by number of the shard; none for one without rows.
        confirmed: files of candidates that have waited.
        waits: figures by kind.
        rows: how many were compared.
    """

    parts: dict[int, PartInfo] = field(default_factory=dict)
    confirmed: list[PartInfo] = field(default_factory=list)
    waits: dict[str, Waits] = field(default_factory=dict)
    rows: int = 0


@partition_function
def advance_shards(run: WorkerRun, config: WaitConfig, task: WaitTask) -> WaitResult:
    """Advance some shards of the list, and write what has waited."""
    parts, written, waits, compared = dict[int, PartInfo](), list[PartInfo](), dict[str, Waits](), 0
    for shard in task.shards:
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
            figures = Waits.of(after, found.filter(pa.array(own)), confirmed[own], config.turn)
            waits[kind] = waits.get(kind, Waits()) + figures
        if config.writes:
            known = config.before.get(shard) if config.same else None
            label = run.folder.call_label
            parts |= same_or_written(run.open_state(), label, shard, advanced.rows, before, known)
    return WaitResult(parts=parts, confirmed=written, waits=waits, rows=compared)


def _below(rows: pa.Table, prefix: str) -> Mask:
    return np.asarray(pc.starts_with(rows["address"], prefix), bool)


def advance_shard(
    folder: RunFolder, state: ObjectWriter, config: WaitConfig, shard: int
) -> tuple[pa.Table, pa.Table, pa.Table, Advanced]:
    """Give what was found in a shard (`SCHEMA`, and as rows of what a mark found), the list before, and what became of
    both.

    Args:
        folder: of the run.
        state: the folder of lease and index.
        config: of the run.
        shard: its number.
    """
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
    if shard and not config.asked:  # nobody knows when they were written, but that it was no later
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
    """Leave out what was deleted.

    Args:
        rows: with `hash`.
        gone: hashes of that.
    """
    (deleted,) = in_any(gone, [rows["hash"].to_numpy()], its_shards_only=True)
    return rows.filter(pa.array(~deleted))


def _live(folder: RunFolder, state: ObjectWriter, previous: pa.Table, found: pa.Table) -> Mask:
    """Tell which rows of a shard of the list are live now; of those that were found none is."""
    live = np.zeros(previous.num_rows, bool)
    unseen = ~pc.is_in(previous["address"], found["address"].combine_chunks()).to_numpy()
    if not unseen.any():
        return live
    if (summary := folder.read_summary(MarkOutput.STEP)) is None:
        raise FormatError(f"run {folder.run_id}: the mark is being made again. Nothing was deleted.")
    mark = MarkOutput.of(summary)
    for kind, prefix in OBJECT_FOLDERS.items():
        mine = unseen & pc.starts_with(previous["address"], prefix).to_numpy()
        if not mine.any():
            continue
        ids, _ = hashes_of_names(names_of(kind, previous["address"].filter(pa.array(mine)).combine_chunks()))
        if kind == "chunks" and mark.counted is not None:
            (live[mine],) = mark.counted.find(
                counts_folder(state, folder.run_id), [ids], its_shards_only=True
            )
            continue
        parts = (
            [part for shard in mark.chunk_shards for part in shard] if kind == "chunks" else [mark.live(kind)]
        )
        for part in parts:
            live[mine] |= sets.contains(sets.read_ids(folder, part), ids)
    return live
