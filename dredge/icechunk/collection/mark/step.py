"""Mark: which snapshots, transaction logs, manifests and chunks are live.

    history → live snapshots → their manifests → their native chunks, and the ids in locations of virtual ones

Snapshot and manifest files that the index has are not read again. A live file that cannot be read stops the run: if
it were skipped, live chunks would look dead.

Which snapshots count as live. More than refs reach is always allowed, less never.

spec 1   what refs reach
spec 2   every snapshot of the repo info, reachable or not: the library's expiration drops the old ones, and after
         that nothing can use them again
         + what refs of spec 1 reach that an upgrade left
both     + files younger than the cutoff, which a ref may name next
         + files that nothing names and that no expiration released: commits that no mark saw (`witness`)
         + tips of refs that were lost (`witness`)
         + the ancestors of all of these
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.errors import RefusedError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.check_again import seeking_deleted
from dredge.icechunk.collection.index import READ_AGAIN, ManifestIndex, SnapshotRow
from dredge.icechunk.collection.kinds import is_old
from dredge.icechunk.collection.live_files import refs_by_manifest
from dredge.icechunk.collection.mark.chunks import find_live_chunks
from dredge.icechunk.collection.mark.counts import count_change, count_live
from dredge.icechunk.collection.mark.snapshots import (
    add_snapshots,
    ancestors_seen,
    index_snapshots,
    snapshot_files,
    with_ancestors,
)
from dredge.icechunk.collection.outputs import (
    KEPT_MANIFESTS,
    NEW_MANIFESTS,
    PRUNED,
    SNAPSHOT_NAMES,
    SNAPSHOT_ROWS,
    VIRTUAL,
    MarkOutput,
    is_virtual,
)
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import snapshots_table
from dredge.icechunk.collection.witness.judging import Judgement, judge
from dredge.icechunk.collection.witness.record import FORGET_LOST, KNOWN, Known, read_known
from dredge.icechunk.history import History
from dredge.icechunk.repository import MANIFESTS, KnownSnapshots, read_history
from dredge.runs.consents import read_consents
from dredge.runs.folder import parquet_bytes
from dredge.runs.payload import to_json
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.runs.words import duration_text


def mark(run: Run, runner: TaskRunner) -> StepSummary:
    """Find everything that is live.

    Raises:
        FormatError: a live file is missing or damaged; nothing was deleted.
        AlarmError: an earlier run had deleted it; it was brought back where that was possible.
        RefusedError: the repository has no main, or is not online.
    """
    return run.step(MarkOutput, lambda record: seeking_deleted(run, lambda: _mark(run, runner, record)))


def _mark(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    known = KnownSnapshots() if run.base is None else run.base.known
    tags = {snapshot: tag for snapshot, (tag, _) in known.entries.items()}
    actual = read_history(run.reader, known=known)
    if actual.availability != "online":
        raise RefusedError(f"{run.plan.uri}: the repository is {actual.availability}. Nothing was deleted.")
    files = dict(snapshot_files(run.reader))
    judgement = _ask_witnesses(run, record, actual, files)
    history = run.after_plan(actual)
    roots = choose_roots(
        history, files.items(), run.plan.cutoff, lost=judgement.lost, unnamed=judgement.unnamed
    )
    live = with_ancestors(run.reader, roots.tips, history.snapshots)
    live |= _reached_by_old_refs(run, judgement, files)
    if history.spec_version == 2:
        unlisted = roots.tips - history.snapshots.keys()
        live |= ancestors_seen(unlisted, judgement.known.parents, judgement.released) & files.keys()
    index = ManifestIndex.load(run.state)
    replaced = {node for node, tag in tags.items() if known.entries.get(node, ("", None))[0] != tag}
    before = set() if run.base is None else {*run.base.state.contradicted}
    rows, parts = index_snapshots(run, runner, index, live, replaced & live, before)
    refs = refs_by_manifest(rows)
    kept = refs.keys() - refs_by_manifest([row for row in rows if row.snapshot in history.snapshots]).keys()
    gone = _gone(run, kept)
    refs = {manifest: count for manifest, count in refs.items() if manifest not in gone}
    rows = [row for row in rows if gone.isdisjoint(row.manifests)]
    _record_live(run, record, history, live, refs)
    names = json.dumps(sorted(kept - gone)).encode()
    record.parts.append(
        run.folder.write_bytes(f"{MarkOutput.STEP}/{KEPT_MANIFESTS}", names, len(kept - gone))
    )
    _record_figures(record, history, roots, live, refs)
    _find_chunks(run, runner, record, index, refs)
    add_snapshots(run, index, parts)
    _record_rows(run, record, rows, known)
    record.details["seen"] = index.seen
    record.details["contradicted"] = contradicted = sorted((before | index.contradicted) & live)
    _warn(run, record, roots, contradicted)
    _warn_of_past(run, record, roots, judgement)


def _gone(run: Run, kept: Collection[str]) -> set[str]:
    """Of manifests that only snapshots name which nothing names, those that are not there: that is no damage."""
    if not kept:
        return set()
    there = set[str]()
    for batch in run.reader.list(MANIFESTS):
        there.update(key.removeprefix(MANIFESTS) for key in batch["key"].to_pylist())
    return set(kept) - there


def _find_chunks(
    run: Run, runner: TaskRunner, record: StepRecord, index: ManifestIndex, refs: Mapping[str, int]
) -> None:
    """Find the live chunks: all of them as sets, or what changed since the run that this one builds on; and the ids
    that locations of virtual chunks name."""
    if run.base is not None:
        change = count_change(run, runner, index, run.base, refs)
        before = sets.read_ids(run.base.folder, run.base.state.virtual)
        _record_virtual(run, record, [before, *(sets.read_ids(run.folder, part) for part in change.virtual)])
        record.details["counted"] = to_json(change.counted)
        record.counts.update(
            manifests_read=len(change.read),
            new_manifests=len(change.new),
            dropped_manifests=len(change.dropped),
            manifests_not_taken_away=change.not_taken_away,
        )
        new = {name: [change.read.get(name, ""), part] for name, part in sorted(change.new.items())}
        data = json.dumps(new).encode()
        name = f"{MarkOutput.STEP}/{NEW_MANIFESTS}"
        record.parts.append(run.folder.write_bytes(name, data, len(change.new)))
        return
    chunks = find_live_chunks(run, runner, index, refs)
    record.parts += chunks.sets
    _record_virtual(
        run, record, (sets.read_ids(run.folder, part) for part in chunks.sets if is_virtual(part))
    )
    record.details["chunk_bits"] = chunks.bits
    record.counts["manifests_read"] = chunks.manifests_read
    if not run.plan.config.dry_run:
        record.details["counted"] = to_json(count_live(run, runner, index, refs, chunks.bits))


def _record_virtual(run: Run, record: StepRecord, pieces: Iterable[sets.Ids]) -> None:
    name = f"{MarkOutput.STEP}/{VIRTUAL}"
    record.parts.append(sets.write_ids(run.folder, name, sets.unite_all(pieces)))


def _record_rows(run: Run, record: StepRecord, rows: Sequence[SnapshotRow], known: KnownSnapshots) -> None:
    """Write what the next run needs to know of the snapshots."""
    data = parquet_bytes(snapshots_table(rows, known))
    record.parts.append(run.folder.write_bytes(f"{MarkOutput.STEP}/{SNAPSHOT_ROWS}", data, len(rows)))


def _ask_witnesses(
    run: Run, record: StepRecord, history: History, files: Mapping[str, datetime]
) -> Judgement:
    """Compare with what earlier marks saw; a mark that is refused leaves nothing."""
    known, etag = read_known(run.state)
    judgement = judge(
        run.reader,
        history,
        files,
        known,
        read_consents(run.state, FORGET_LOST),
        run_id=run.plan.run_id,
        now=run.plan.created_at,
        keep=timedelta(days=run.plan.config.keep_lost_days),
    )
    judgement.refuse(run.plan.uri)
    if run.plan.config.after is None:
        record.parts.append(
            run.folder.write_bytes(f"{MarkOutput.STEP}/{KNOWN}", judgement.known.dumps(), len(files))
        )
        record.details["known_etag"] = etag
        record.details["known_is_damaged"] = known.copied_back_at is not None or (
            etag is not None and known == Known()
        )
    return judgement


def _reached_by_old_refs(run: Run, judgement: Judgement, files: Collection[str]) -> set[str]:
    """Give what refs of spec 1 reach by the files themselves, whatever the repo info says of their parents."""
    if not run.plan.config.keep_old_refs:
        return set()
    return with_ancestors(run.reader, {ref.tip for ref in judgement.old_refs if ref.tip in files}, ())


def _record_live(
    run: Run,
    record: StepRecord,
    history: History,
    live: set[str],
    refs: Mapping[str, int],
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
    names_json = json.dumps(sorted(live)).encode()
    record.parts.append(run.folder.write_bytes(f"{MarkOutput.STEP}/{SNAPSHOT_NAMES}", names_json, len(live)))
    record.details["history"] = history.digest


def _record_figures(
    record: StepRecord,
    history: History,
    roots: Roots,
    live: set[str],
    refs: Mapping[str, int],
) -> None:
    record.counts.update(
        refs=len(history.refs),
        live_snapshots=len(live),
        live_manifests=len(refs),
        live_references=sum(refs.values()),
        young_snapshots=len(roots.young),
        unnamed_snapshots=len(roots.unnamed),
    )


def _warn(run: Run, record: StepRecord, roots: Roots, contradicted: Sequence[str]) -> None:
    config = run.plan.config
    if contradicted:
        record.warn(
            f"{len(contradicted):,} snapshots, such as {contradicted[0]}, named other manifests when they were read"
            " again: one of the reads was damaged, so what either names is kept. Look at them with Icechunk, and"
            f" restore those that are damaged; when all are sound, {READ_AGAIN}"
        )
    if config.after is not None and config.waits:
        record.warn(
            "this report takes the planned expiration as applied. What that releases waits first for"
            f" {duration_text(run.plan.grace)}"
        )
    if lost := record.counts.get("manifests_not_taken_away"):
        record.warn(
            f"{lost:,} manifests that are not in use any more are in the index no longer: what only they name stays"
            " until the next clean run"
        )


def _warn_of_past(run: Run, record: StepRecord, roots: Roots, judgement: Judgement) -> None:
    days = f"{run.plan.config.keep_lost_days:g} days"
    record.counts["lost_tips"] = len(judgement.lost)
    record.details["old_refs"] = [[ref.label, ref.tip] for ref in judgement.old_refs]
    if judgement.lost:
        node, tip = min(judgement.lost.items(), key=lambda item: item[1].since)
        record.warn(
            f"{len(judgement.lost):,} snapshots were tips of refs and are not reached now, such as {node} of {tip.ref}:"
            f" they and what they use are kept for {days} from the first run that missed them. If one was lost by"
            " mistake, put its ref back"
        )
    if roots.unnamed:
        record.warn(
            f"{len(roots.unnamed):,} snapshot files that nothing names and that no expiration released, such as"
            f" {min(roots.unnamed)}, are kept with what they use for {days} from the first run that missed them"
        )
    if judgement.old_refs:
        kept = (
            "what they reach is kept" if run.plan.config.keep_old_refs else "what only they reach is garbage"
        )
        record.warn(
            f"{len(judgement.old_refs):,} refs of spec 1 lie beside the repo info, such as"
            f" {judgement.old_refs[0].label}, left by the upgrade to spec 2: {kept}. To end it, delete the folder"
            " refs/, or turn keep_old_refs off"
        )


@dataclass(frozen=True, slots=True)
class Roots:
    """The snapshots to mark from.

    Attributes:
        tips: snapshots that are live, with all their ancestors.
        young: of those, unreachable ones that are younger than the cutoff.
        unnamed: of those, unreachable ones that nothing names and that were never released.
    """

    tips: frozenset[str]
    young: frozenset[str]
    unnamed: frozenset[str]


def choose_roots(
    history: History,
    files: Iterable[tuple[str, datetime]],
    cutoff: datetime,
    *,
    lost: Collection[str] = (),
    unnamed: Collection[str] = (),
) -> Roots:
    """Choose the live snapshots."""
    named = set(history.snapshots) if history.spec_version == 2 else history.reachable()
    unreachable = {snapshot: time for snapshot, time in files if snapshot not in named}
    young = {snapshot for snapshot, time in unreachable.items() if not is_old(time, cutoff)}
    kept = unreachable.keys() & {*unnamed}
    return Roots(
        tips=frozenset(named | young | kept | {*lost}),
        young=frozenset(young),
        unnamed=frozenset(kept - young),
    )
