"""List candidates: what the store holds and nothing live names, older than the cutoff.

each folder → ranges of names, listed at once ─┐      (no chunks in an optimized run: `chunks` looks at manifests)
                                               ├→ candidates, figures, live objects that are absent
overwritten/, when the run asks for it ────────┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dredge.errors import FormatError
from dredge.icechunk.collection.check_again import seeking_deleted
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS, OVERWRITTEN
from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.list_candidates.candidates import write_candidates
from dredge.icechunk.collection.list_candidates.chunks import find_chunks, find_drift, of_dead
from dredge.icechunk.collection.list_candidates.from_inventory import find_in_inventory
from dredge.icechunk.collection.list_candidates.listing import ListConfig, ListResult, ListTask
from dredge.icechunk.collection.list_candidates.output import ListCandidatesOutput
from dredge.icechunk.collection.list_candidates.overwritten import find_old_copies
from dredge.icechunk.collection.list_candidates.ranges import bounds_for
from dredge.icechunk.collection.list_candidates.waiting import find_waited, read_before
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.pinned import pinned_with_needs
from dredge.icechunk.collection.run import Run
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.sets.live import LocatedSet

_FOREIGN_SHOWN = 3


def list_candidates(run: Run, runner: TaskRunner) -> StepSummary:
    """List the repository and write what may be deleted.

    Raises:
        FormatError: a live snapshot or manifest is not in the listing, so one of the two cannot be trusted.
    """
    return run.step(
        ListCandidatesOutput,
        lambda record: seeking_deleted(run, lambda: _list_candidates(run, runner, record)),
    )


def _list_candidates(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    mark = record.input(MarkOutput)
    tasks = list(_tasks(run, mark))
    config, before = _config(run, mark), read_before(run, record)
    results = run.spread(runner, ListCandidatesOutput.STEP, listing.list_range, config, tasks, "objects")
    _record(record, tasks, results)
    if run.base is not None:
        find_chunks(run, runner, record, results, before, config.pinned)
    elif run.plan.inventory is not None:
        find_in_inventory(run, runner, record, of_dead(run, runner, record, mark.chunk_bits))
    if run.base is None and (drift := find_drift(run, runner, record)) is not None:
        record.details["drift"] = drift
    _refuse_absent(run, record)
    _warn_of_foreign(record, tasks, results)
    _add_old_copies(run, record, config.pinned)
    find_waited(run, runner, record, before)


def _config(run: Run, mark: MarkOutput) -> ListConfig:
    return ListConfig(
        cutoff=run.plan.cutoff,
        candidate_rows=run.plan.config.tuning.candidate_rows,
        live={kind: mark.live(kind) for kind in OBJECT_FOLDERS if kind != "chunks"},
        pruned=mark.pruned,
        chunk_bits=mark.chunk_bits if run.base is None else 0,
        chunk_shards=mark.chunk_shards if run.base is None else [],
        kept_kinds=run.plan.config.kept_kinds,
        pinned=pinned_with_needs(run, mark, ListCandidatesOutput.STEP),
        new_manifests=None if run.base is None else mark.new_manifests,
    )


def _tasks(run: Run, mark: MarkOutput) -> Iterator[ListTask]:
    expected = {
        "snapshots": mark.counts["live_snapshots"],
        "transactions": mark.counts["live_snapshots"],
        "manifests": mark.counts["live_manifests"],
        "chunks": mark.chunks if run.base is None else 0,
    }
    keys_per_task = run.plan.config.tuning.keys_per_task
    for kind in OBJECT_FOLDERS:
        if kind == "chunks" and (run.base is not None or run.plan.inventory is not None):
            continue  # what manifests or an inventory name is looked at instead
        bounds = bounds_for(expected[kind], keys_per_task, not run.reader.uri.startswith("file:"))
        for number, (low, high) in enumerate(pairwise(bounds)):
            yield ListTask(kind=kind, number=number, low=low, high=high)


def _record(record: StepRecord, tasks: Sequence[ListTask], results: Sequence[ListResult]) -> None:
    totals: Counter[str] = Counter()
    absent: dict[str, list[str]] = {}
    for task, result in zip(tasks, results, strict=True):
        record.parts += result.parts
        totals.update({f"{task.kind}_{name}": value for name, value in result.counts.items()})
        absent.setdefault(task.kind, []).extend(result.absent)
    for kind in OBJECT_FOLDERS:
        record.counts.update({f"{kind}_{name}": totals[f"{kind}_{name}"] for name in listing.FIGURES})
    record.details["absent"] = {kind: ids[: listing.ABSENT_MAX] for kind, ids in absent.items() if ids}


def _refuse_absent(run: Run, record: StepRecord) -> None:
    for kind in ("snapshots", "manifests"):
        if count := record.counts[f"{kind}_absent"]:
            raise FormatError(
                f"{run.plan.uri}: {count} live {kind} are not listed in {OBJECT_FOLDERS[kind]}. Nothing was deleted."
                " The repository is damaged, or the store lists wrongly."
            )


def _warn_of_foreign(record: StepRecord, tasks: Sequence[ListTask], results: Sequence[ListResult]) -> None:
    for kind in OBJECT_FOLDERS:
        names = [
            name
            for task, result in zip(tasks, results, strict=True)
            if task.kind == kind
            for name in result.foreign
        ]
        if names:
            count, shown = record.counts[f"{kind}_foreign"], ", ".join(names[:_FOREIGN_SHOWN])
            record.warn(f"{count:,} names in {kind} are not ids and are left alone: {shown}")


def _add_old_copies(run: Run, record: StepRecord, pinned: Sequence[LocatedSet]) -> None:
    found = find_old_copies(run, pinned)
    if found is None:
        return
    rows = run.plan.config.tuning.candidate_rows
    record.parts += write_candidates(run.folder, OVERWRITTEN, 0, found.tables, rows)
    record.counts.update(
        overwritten_listed_objects=found.listed,
        overwritten_candidates_objects=found.objects,
        overwritten_candidates_bytes=found.size_bytes,
    )
