"""List the repository's folders, and write its garbage.

    each folder → ranges of names, listed at once ─┐      (no chunks in an optimized run: `chunks` reads manifests)
                                                   ├→ garbage, figures, absent live objects → `waiting` → candidates
    overwritten/, if the run asks for it ──────────┘

Spec 2 writes a copy of the repo info into `overwritten/` at every change, and the library never removes one; their
bytes grow with the square of the number of commits. A run keeps the chain of copies of the operations log, every copy
in the current log (the chain continues there), and copies younger than an age of their own. A deletion costs only old
entries of the operations log: after later changes the log ends after the newest two thousand entries or so. No snapshot
and no data depends on these files.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pyarrow as pa

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.absent import ABSENT_MAX
from dredge.icechunk.collection.check_again import seeking_deleted
from dredge.icechunk.collection.list_candidates import chunks, listing
from dredge.icechunk.collection.list_candidates.waiting import find_waited, read_before
from dredge.icechunk.collection.outputs import OUTSIDE, ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.pinned import Kept, pinned_with_needs, read_kept
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.metadata import RepoInfo, parse_repo_info, written_at
from dredge.icechunk.ids import hash_ids
from dredge.icechunk.repository import FOLDERS, OBJECT_FOLDERS, OVERWRITTEN, is_old, read_repo_info
from dredge.runs.payload import StepSummary
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import write_hashes
from dredge.sets.live import LocatedSet
from dredge.storage import ObjectReader
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.parallel import at_once

_FOREIGN_SHOWN = 3

_FOLDER = FOLDERS[OVERWRITTEN]


def list_candidates(run: Run, runner: TaskRunner) -> StepSummary:
    """List the repository, and write the candidates."""
    kept = Ahead(lambda _: read_kept(run))

    def find(record: StepRecord) -> None:
        seeking_deleted(run, lambda: _list_candidates(run, runner, record, kept.result(record.inputs)))

    return run.step(ListCandidatesOutput, find, ahead=kept)


def _list_candidates(run: Run, runner: TaskRunner, record: StepRecord, kept: Kept) -> None:
    mark = record.input(MarkOutput)
    tasks = list(_tasks(run, mark))
    with at_once() as ask:
        read = ask(read_before, run, record)
        pinned = pinned_with_needs(run, mark, ListCandidatesOutput.STEP, kept)
        record.parts.append(
            write_hashes(run.folder, f"{ListCandidatesOutput.STEP}/{OUTSIDE}", hash_ids(kept[1]))
        )
        config = _config(run, mark, pinned)
        results = run.spread(runner, ListCandidatesOutput.STEP, listing.list_range, config, tasks, "objects")
    before = read.result()
    _record(record, tasks, results)
    if run.base is not None:
        chunks.find_chunks(run, runner, record, results, before, config.pinned)
    elif run.plan.inventory is not None:
        chunks.find_in_inventory(
            run, runner, record, chunks.of_dead(run, runner, record, mark.chunk_bits), config.pinned
        )
    if run.base is None and (drift := chunks.find_drift(run, runner, record)) is not None:
        record.details["drift"] = drift
    _refuse_absent(run, record)
    _warn_of_foreign(record, tasks, results)
    _add_old_copies(run, record, config.pinned)
    find_waited(run, runner, record, before)


def _config(run: Run, mark: MarkOutput, pinned: tuple[LocatedSet, ...]) -> listing.ListConfig:
    return listing.ListConfig(
        cutoff=run.plan.cutoff,
        candidate_rows=run.plan.config.tuning.candidate_rows,
        live={kind: mark.live(kind) for kind in OBJECT_FOLDERS if kind != "chunks"},
        pruned=mark.pruned,
        chunk_bits=mark.chunk_bits if run.base is None else 0,
        chunk_shards=mark.chunk_shards if run.base is None else [],
        kept_kinds=run.plan.config.kept_kinds,
        pinned=pinned,
        new_manifests=None if run.base is None else mark.new_manifests,
    )


def _tasks(run: Run, mark: MarkOutput) -> Iterator[listing.ListTask]:
    expected = {
        "snapshots": mark.counts["live_snapshots"],
        "transactions": mark.counts["live_snapshots"],
        "manifests": mark.counts["live_manifests"],
        "chunks": mark.chunks if run.base is None else 0,
    }
    keys_per_task = run.plan.config.tuning.keys_per_task
    for kind in OBJECT_FOLDERS:
        if kind == "chunks" and (run.base is not None or run.plan.inventory is not None):
            continue  # the run reads manifests or an inventory instead
        bounds = listing.bounds_for(expected[kind], keys_per_task, not run.reader.uri.startswith("file:"))
        for number, (low, high) in enumerate(pairwise(bounds)):
            yield listing.ListTask(kind=kind, number=number, low=low, high=high)


def _record(
    record: StepRecord, tasks: Sequence[listing.ListTask], results: Sequence[listing.ListResult]
) -> None:
    totals: Counter[str] = Counter()
    absent: dict[str, list[str]] = {}
    for task, result in zip(tasks, results, strict=True):
        record.parts += result.parts
        totals.update({f"{task.kind}_{name}": value for name, value in result.counts.items()})
        absent.setdefault(task.kind, []).extend(result.absent)
    for kind in OBJECT_FOLDERS:
        record.counts.update({f"{kind}_{name}": totals[f"{kind}_{name}"] for name in listing.FIGURES})
    record.details["absent"] = {kind: ids[:ABSENT_MAX] for kind, ids in absent.items() if ids}


def _refuse_absent(run: Run, record: StepRecord) -> None:
    for kind in ("snapshots", "manifests"):
        if count := record.counts[f"{kind}_absent"]:
            raise FormatError(
                f"{run.plan.uri}: the listing of {OBJECT_FOLDERS[kind]} lacks {count} live {kind}. Nothing was"
                " deleted. The repository is damaged, or the listing is wrong: check with Icechunk."
            )


def _warn_of_foreign(
    record: StepRecord, tasks: Sequence[listing.ListTask], results: Sequence[listing.ListResult]
) -> None:
    for kind in OBJECT_FOLDERS:
        names = [
            name
            for task, result in zip(tasks, results, strict=True)
            if task.kind == kind
            for name in result.foreign
        ]
        if names:
            count, shown = record.counts[f"{kind}_foreign"], ", ".join(names[:_FOREIGN_SHOWN])
            record.warn(
                f"{count:,} names in {kind}/ are not ids, so these objects are never deleted: {shown}"
            )


def _add_old_copies(run: Run, record: StepRecord, pinned: Sequence[LocatedSet]) -> None:
    hours = run.plan.config.overwritten_min_age_hours
    if hours is None or run.plan.spec_version != 2:
        return
    cutoff = min(run.plan.cutoff, run.plan.created_at - timedelta(hours=hours))
    needed = needed_copies(run.reader, read_repo_info(run.reader))
    listed, going = 0, [LISTING_SCHEMA.empty_table()]
    for batch in run.reader.list(_FOLDER):
        names = [key.removeprefix(_FOLDER) for key in batch["key"].to_pylist()]
        times = batch["last_modified"].to_pylist()
        mask = [_may_go(name, time, cutoff, needed) for name, time in zip(names, times, strict=True)]
        table = pa.Table.from_batches([batch]).filter(pa.array(mask, pa.bool_()))
        going.append(listing.without_pinned(table, pinned)[0].select(LISTING_SCHEMA.names))
        listed += batch.num_rows
    table = pa.concat_tables(going)
    record.parts += listing.write_candidates(
        run.folder, OVERWRITTEN, 0, [table], run.plan.config.tuning.candidate_rows
    )
    record.counts.update(
        overwritten_listed_objects=listed,
        overwritten_candidates_objects=table.num_rows,
        overwritten_candidates_bytes=chunks.bytes_of(table),
    )


def needed_copies(reader: ObjectReader, info: RepoInfo) -> set[str]:
    """Return the copies that the operations log needs: those of its chain, and all in the current repo info."""
    needed = {update.backup for update in info.updates if update.backup is not None}
    link = info.before_updates
    chain: set[str] = set()
    while link is not None:
        if link in chain:
            raise FormatError(f"{reader.uri}/{_FOLDER}: damaged: the copies of the repo info form a cycle")
        chain.add(link)
        try:
            link = parse_repo_info(reader.get(_FOLDER + link), _FOLDER + link).before_updates
        except NotFoundError:
            break  # an earlier sweep deleted the rest of the chain
    return needed | chain


def _may_go(name: str, last_modified: datetime, cutoff: datetime, needed: set[str]) -> bool:
    made = written_at(name)
    return made is not None and name not in needed and made < cutoff and is_old(last_modified, cutoff)
