"""Which of what was found has waited: only that is a candidate.

    found now, the list before ──> the list after, and what has waited   shard 0: all but the chunks
      what waits ──> what it names stays with it
    found now, the list before ──> the list after, and what has waited   the other shards: chunks

Ids are never used again, so what the list has is looked for nowhere: a chunk that only the list names (its manifests
went before it) is a candidate as it stands there. What the run deleted that left the state is not on the list any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.hashing import hash64
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.kinds import FOLDERS, names_of
from dredge.icechunk.collection.list_candidates.advancing import (
    WaitConfig,
    WaitTask,
    advance_shard,
    advance_shards,
    without,
)
from dredge.icechunk.collection.list_candidates.named import once, rows_of_names, write_by_shard
from dredge.icechunk.collection.list_candidates.output import FOUND, ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.pending import find_list
from dredge.icechunk.collection.pinned import with_needs
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state.base import open_base
from dredge.icechunk.collection.witness.record import parse_known
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import to_json
from dredge.runs.pending.figures import Waits
from dredge.runs.pending.rows import PENDING, Turn, due
from dredge.runs.pending.store import PendingList, Stored
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, round_robin
from dredge.runs.versions import CLEAN
from dredge.sets.hashes import write_hashes
from dredge.sets.live import LocatedSet, ShardedSet

_STEP = ListCandidatesOutput.STEP
SHARD_ROWS = 500_000
"""Rows of a shard of chunks, about."""
_FIGURES = {"found_now": "found_now", "waiting": "waiting", "candidates": "confirmed"}
"""Counts of the step, and the figures of the list that they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What earlier runs left.

    Attributes:
        stored: the list, and whether it may be believed.
        gone: hashes of what the run deleted that left the state.
        life: of the repository.
    """

    stored: Stored
    gone: tuple[LocatedSet, ...]
    life: str

    @property
    def parts(self) -> Mapping[int, PartInfo]:
        """Files of rows by number of the shard."""
        return {} if self.stored.pending is None else self.stored.pending.parts


def read_before(run: Run, record: StepRecord) -> Before:
    """Read what the run before this one left waiting.

    Args:
        run: this run.
        record: of the step; takes a warning where everything waits anew.

    Raises:
        RefusedError: a newer version of Dredge wrote the list.
    """
    mark, plan = record.input(MarkOutput), run.plan
    if mark.known is None:  # a report on a planned expiration
        return Before(stored=Stored(), gone=(), life="")
    root = parse_known(run.folder.read_bytes(mark.known)).root
    life = "" if root is None else f"{root[0]} of {root[1]}"
    stored = find_list(run.state, plan.uri, run.store_now(), life)
    gone: tuple[LocatedSet, ...] = ()
    problem = stored.problem
    if mark.known_is_damaged:
        problem = "nobody knows what the run before this one saw"
    elif stored.pending is None and plan.mode != CLEAN:
        problem = problem or "it is gone"
    try:
        gone = _gone(run)
    except DredgeError as error:
        problem = f"what the last run deleted cannot be read ({error})"
    if problem:
        stored = Stored(etag=stored.etag, problem=problem)
        record.warn(f"everything waits anew: the pending list cannot be used: {problem}")
        record.details["waits_anew"] = problem
    return Before(stored=stored, gone=gone, life=life)


def _gone(run: Run) -> tuple[LocatedSet, ...]:
    """Hashes of what the run deleted that left the state."""
    if run.plan.state is None:
        return ()
    folder = open_base(run.plan.state, run.state, run.options).folder
    if (swept := folder.read_summary(ledger.STEP)) is None:
        return ()
    pieces = []
    for table in folder.read_parts(list(swept.parts), ["address", "outcome"]):
        done = pc.is_in(table["outcome"], pa.array([ledger.DELETED, ledger.MISSING]))
        pieces.append(sets.unite([hash64(table["address"].filter(done))]))
    part = write_hashes(run.folder, f"{_STEP}/_gone.u64", sets.unite(pieces))
    return (LocatedSet(run.folder.uri, ShardedSet(0, {0: part})),)


def due_chunks(run: Run, before: Before, bits: int) -> dict[int, PartInfo]:
    """Write the chunks of the list whose wait is over, as rows of `named.NAMED` by shard of their ids.

    Args:
        run: this run, which lists no chunks.
        before: what earlier runs left.
        bits: there are 2**bits shards of ids.
    """
    state, plan, pieces = RunFolder(run.state, "the pending list"), run.plan, list[pa.Table]()
    for part in (part for shard, part in before.parts.items() if shard):
        rows = without(state.read_part(part).cast(PENDING), before.gone)
        rows = rows.filter(pa.array(due(rows, plan.created_at, plan.grace, plan.cutoff))).combine_chunks()
        age = rows["min_age"].cast(pa.duration("us"))  # what waits was older than that when its wait began
        at = pc.coalesce(rows["last_modified"], pc.subtract(rows["since"], age), rows["since"])
        rows = pa.table({"address": rows["address"], "size": rows["size"], "last_modified": at})
        pieces.append(rows_of_names(rows, names_of("chunks", rows["address"]).combine_chunks()))
    return write_by_shard(run.folder, bits, "due", once(pieces))


def find_waited(run: Run, runner: TaskRunner, record: StepRecord, before: Before) -> None:
    """Advance the list by what was found; what has waited is a candidate.

    Args:
        run: this run; its mark and its listing are complete.
        runner: spreads the work.
        record: of the step, with what was found; takes candidates, figures, and the list.
        before: what earlier runs left.

    Raises:
        FormatError: not all of what was found was compared with the list, or that cannot be read.
    """
    config = _config(run, record, before)
    if config.turn.waits and config.before:  # what waits is kept with all that it names
        rows, _, _, advanced = advance_shard(run.folder, run.state, config, 0)
        waiting = rows["address"].filter(pa.array(~advanced.confirmed)).to_pylist()
        kept = with_needs(run, f"{_STEP}/_named_by_waiting", set(waiting), passes_archived=True)
        config = replace(config, named=(kept,))
    count = (1 << config.bits) + 1
    tasks = [WaitTask(shards=share) for share in round_robin(range(count), run.num_tasks(runner, count))]
    total = sum(record.counts.get(f"{kind}_candidates_objects", 0) for kind in FOLDERS)
    results = run.spread(runner, _STEP, advance_shards, config, tasks, "objects", total)
    record.parts += [part for result in results for part in result.confirmed]
    if sum(result.rows for result in results) != total:
        raise FormatError(f"{run.plan.uri}: not all that was found was compared with the pending list.")
    waits = {kind: sum((result.waits[kind] for result in results), Waits()) for kind in FOLDERS}
    for kind in (kind for kind in FOLDERS if f"{kind}_listed_objects" in record.counts):
        figures = waits[kind].to_details(config.turn.grace)
        for unit in ("objects", "bytes"):
            record.counts[f"{kind}_found_{unit}"] = record.counts.get(f"{kind}_candidates_{unit}", 0)
            for name, figure in _FIGURES.items():
                record.counts[f"{kind}_{name}_{unit}"] = figures[figure][unit]
    record.details["pending"] = sum(waits.values(), Waits()).to_details(config.turn.grace)
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
        record.details["pending_list"] = [to_json(pending), before.stored.etag]


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
            # A report on a planned expiration tells what would go once all has waited.
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
