"""Mark: which snapshots, transaction logs, manifests and chunks are live.

    history → live snapshots → their manifests → their native chunks

Snapshot and manifest files that the index has are not read again. A live file that cannot be read stops the run: if
it were skipped, live chunks would look dead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

from dredge.errors import RefusedError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.live_files import refs_by_manifest
from dredge.icechunk.collection.mark.chunks import LiveChunks, find_live_chunks
from dredge.icechunk.collection.mark.output import PRUNED, SNAPSHOT_NAMES, MarkOutput
from dredge.icechunk.collection.mark.roots import Roots, choose_roots
from dredge.icechunk.collection.mark.snapshots import index_snapshots, snapshot_files, with_ancestors
from dredge.icechunk.collection.mark.unreachable import read_unreachable, write_unreachable
from dredge.icechunk.collection.run import Run
from dredge.icechunk.history import History
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.runs.words import duration_text


def mark(run: Run, runner: TaskRunner) -> StepSummary:
    """Find everything that is live.

    Raises:
        FormatError: a live file is missing or damaged; nothing was deleted.
        RefusedError: the repository has no main, or is not online.
    """
    return run.step(MarkOutput, lambda record: _mark(run, runner, record))


def _mark(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    history = run.read_history()
    if history.availability != "online":
        raise RefusedError(f"{run.plan.uri}: the repository is {history.availability}. Nothing was deleted.")
    roots = _find_roots(run, record, history)
    live = with_ancestors(run.reader, roots.tips, history.snapshots)
    index = ManifestIndex.load(run.state)
    refs = refs_by_manifest(index_snapshots(run, runner, index, live))
    chunks = find_live_chunks(run, runner, index, refs)
    _record_live(run, record, history, live, refs, chunks)
    _record_figures(record, history, roots, live, refs, chunks)
    _warn(run, record, roots)


def _find_roots(run: Run, record: StepRecord, history: History) -> Roots:
    plan, before = run.plan, read_unreachable(run.state)
    is_preview = plan.config.after is not None
    roots = choose_roots(
        history,
        snapshot_files(run.reader),
        plan.cutoff,
        now=plan.created_at,
        seen_before=before.since,
        grace=timedelta(hours=0 if is_preview else plan.config.grace_hours),
    )
    # What only a planned expiration would release is still reachable, and its grace does not begin.
    if plan.spec_version == 1 and not is_preview:
        # First of all: a released file that cannot be read stops this run, and its grace must go on to an end.
        write_unreachable(run, record.attempt, roots.unreachable_since, before.etag)
    return roots


def _record_live(
    run: Run,
    record: StepRecord,
    history: History,
    live: set[str],
    refs: Mapping[str, int],
    chunks: LiveChunks,
) -> None:
    pruned = {log for entry in history.snapshots.values() for log in entry.pruned}
    ids = {
        "snapshots.ids": live,
        "manifests.ids": refs.keys(),
        "transactions.ids": live | pruned,
        PRUNED: pruned - live,
    }
    for name, names in ids.items():
        record.parts.append(sets.write_ids(run.folder, f"{MarkOutput.STEP}/{name}", sets.of_names(names)))
    record.parts += chunks.sets
    names_json = json.dumps(sorted(live)).encode()
    record.parts.append(run.folder.write_bytes(f"{MarkOutput.STEP}/{SNAPSHOT_NAMES}", names_json, len(live)))
    record.details["chunk_bits"] = chunks.bits
    record.details["history"] = history.digest


def _record_figures(
    record: StepRecord,
    history: History,
    roots: Roots,
    live: set[str],
    refs: Mapping[str, int],
    chunks: LiveChunks,
) -> None:
    record.counts.update(
        refs=len(history.refs),
        live_snapshots=len(live),
        live_manifests=len(refs),
        live_references=sum(refs.values()),
        manifests_read=chunks.manifests_read,
        held_snapshots=len(roots.held),
        young_snapshots=len(roots.young),
    )


def _warn(run: Run, record: StepRecord, roots: Roots) -> None:
    config = run.plan.config
    if roots.held:
        record.warn(
            f"{len(roots.held):,} released snapshots and what they use are kept until they have been seen"
            f" unreachable for {duration_text(timedelta(hours=config.grace_hours))}"
        )
    if config.after is not None and run.plan.spec_version == 1 and config.grace_hours:
        record.warn(
            "this report takes the planned expiration as applied. What only released snapshots use is deleted by a"
            f" run that has seen them unreachable for {config.grace_hours:g} h, so the first one deletes less"
        )
