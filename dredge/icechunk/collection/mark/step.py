"""Find the live snapshots, transaction logs, manifests and chunks.

    history → live snapshots → their manifests → their native chunks, and the ids in locations of virtual chunks

Snapshots and manifests of the index are not read again. An unreadable live file stops the run: its live chunks would
look like garbage.

Live snapshots (a superset is always allowed):

    spec 1   snapshots that refs reach
    spec 2   every snapshot of the repo info, reachable or not: the library's expiration drops the old snapshots, and
             after that nothing can use them again
             + snapshots that refs of spec 1 reach after an upgrade
    both     + files younger than the cutoff: a ref may use them next
             + unreleased files without a referrer: commits after the last mark (`witness`)
             + tips of lost refs (`witness`)
             + the ancestors of all of these
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.errors import RefusedError
from dredge.icechunk.collection.check_again import seeking_deleted
from dredge.icechunk.collection.index import ManifestIndex, cache_uri, refs_by_manifest
from dredge.icechunk.collection.kinds import is_old
from dredge.icechunk.collection.mark.chunks import find_live_chunks
from dredge.icechunk.collection.mark.snapshots import (
    ancestors_seen,
    index_snapshots,
    read_index,
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
from dredge.icechunk.collection.run import Run, snapshots_table
from dredge.icechunk.collection.witness.judging import Judgement, judge
from dredge.icechunk.collection.witness.record import FORGET_LOST, KNOWN, Known, read_known
from dredge.icechunk.history import History
from dredge.icechunk.ids import hash_ids
from dredge.icechunk.repository import MANIFESTS, KnownSnapshots, list_names, list_snapshots, read_history
from dredge.runs.consents import Consent, read_consents
from dredge.runs.parts import cache_parts, parquet_bytes
from dredge.runs.payload import to_json
from dredge.runs.report import duration_text
from dredge.runs.run import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import Hashes, read_hashes, unite_all, write_hashes
from dredge.storage.parallel import at_once


def mark(run: Run, runner: TaskRunner) -> StepSummary:
    """Find all live objects. Raises FormatError, AlarmError: a live file is missing or damaged, or an earlier run had
    deleted it; RefusedError: the repository has no main, or is not online."""
    with cache_parts(cache_uri(run.state)), cache_parts(run.reader.uri):
        return run.step(MarkOutput, lambda record: seeking_deleted(run, lambda: _mark(run, runner, record)))


def _mark(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    with at_once() as ask:
        # No order is needed: files written since this listing are young in the listing of candidates, and the re-check
        # looks for snapshots written since the plan.
        listed = ask(list_snapshots, run.reader)
        past, said = ask(read_known, run.state), ask(read_consents, run.state, FORGET_LOST)
        indexed = ask(read_index, run)
        ask(run.store_now)  # later steps need the time
        known = KnownSnapshots() if run.base is None else run.base.known
        actual = read_history(run.reader, known=known, files=listed)
    if actual.availability != "online":
        raise RefusedError(f"{run.plan.uri}: the repository is {actual.availability}. Nothing was deleted.")
    files = {node: info.last_modified for node, info in listed.result().items()}
    judgement = _ask_witnesses(run, record, actual, files, past.result(), said.result())
    history = run.after_plan(actual)
    if history is not actual:
        record.counts["planned_released_snapshots"] = len(actual.snapshots) - len(history.snapshots)
    roots = choose_roots(
        history, files.items(), run.plan.cutoff, lost=judgement.lost, unnamed=judgement.unnamed
    )
    live = with_ancestors(run.reader, roots.tips, history.snapshots)
    live |= _reached_by_old_refs(run, judgement, files)
    if history.spec_version == 2:
        unlisted = roots.tips - history.snapshots.keys()
        live |= ancestors_seen(unlisted, judgement.known.parents, judgement.released) & files.keys()
    index, rows_before = indexed.result()
    rows, parts = index_snapshots(run, runner, rows_before, live)
    refs = refs_by_manifest(rows)
    kept = refs.keys() - refs_by_manifest([row for row in rows if row.snapshot in history.snapshots]).keys()
    gone = _gone(run, kept)
    refs = {manifest: count for manifest, count in refs.items() if manifest not in gone}
    rows = [row for row in rows if gone.isdisjoint(row.manifests)]
    _record_live(run, record, history, live, refs)
    _write(run, record, KEPT_MANIFESTS, json.dumps(sorted(kept - gone)).encode(), len(kept - gone))
    record.counts.update(
        refs=len(history.refs),
        live_snapshots=len(live),
        live_manifests=len(refs),
        live_references=sum(refs.values()),
        young_snapshots=len(roots.young),
        unnamed_snapshots=len(roots.unnamed),
    )
    if roots.youngest is not None:
        record.details["young_until"] = (roots.youngest + (run.plan.created_at - run.plan.cutoff)).isoformat()
    _find_chunks(run, runner, record, index, refs)
    _write(run, record, SNAPSHOT_ROWS, parquet_bytes(snapshots_table(rows, known)), len(rows))
    index.add(run.state, f"{run.folder.label}-1", parts, [])
    record.details["seen"] = index.seen
    _warn(run, record)
    _warn_of_past(run, record, roots, judgement)


def _gone(run: Run, kept: Collection[str]) -> set[str]:
    # No ref reaches the snapshots of these manifests: a missing file is no damage.
    return set(kept) - list_names(run.reader, MANIFESTS) if kept else set()


def _find_chunks(
    run: Run, runner: TaskRunner, record: StepRecord, index: ManifestIndex, refs: Mapping[str, int]
) -> None:
    chunks = find_live_chunks(run, runner, index, run.base, refs)
    virtual = (read_hashes(run.folder, part) for part in chunks.sets if is_virtual(part))
    if chunks.counted is not None:
        record.details["counted"] = to_json(chunks.counted)
    record.counts["manifests_read"] = len(chunks.read)
    if run.base is None:
        record.parts += chunks.sets
        record.details["chunk_bits"] = chunks.bits
        _record_virtual(run, record, virtual)
        return
    _record_virtual(run, record, [read_hashes(run.base.folder, run.base.state.virtual), *virtual])
    record.counts.update(
        new_manifests=len(chunks.new),
        dropped_manifests=len(chunks.dropped),
        manifests_not_taken_away=chunks.not_taken_away,
    )
    new = {name: [chunks.read.get(name, ""), part] for name, part in sorted(chunks.new.items())}
    _write(run, record, NEW_MANIFESTS, json.dumps(new).encode(), len(new))


def _record_virtual(run: Run, record: StepRecord, pieces: Iterable[Hashes]) -> None:
    name = f"{MarkOutput.STEP}/{VIRTUAL}"
    record.parts.append(write_hashes(run.folder, name, unite_all(pieces)))


def _write(run: Run, record: StepRecord, name: str, data: bytes, rows: int) -> None:
    record.parts.append(run.folder.write_bytes(f"{MarkOutput.STEP}/{name}", data, rows))


def _ask_witnesses(
    run: Run,
    record: StepRecord,
    history: History,
    files: Mapping[str, datetime],
    past: tuple[Known, str | None],
    said: Sequence[Consent],
) -> Judgement:
    known, etag = past
    judgement = judge(
        run.reader,
        history,
        files,
        known,
        said,
        run_id=run.plan.run_id,
        now=run.plan.created_at,
        keep=timedelta(days=run.plan.config.keep_lost_days),
    )
    judgement.refuse(run.plan.uri)  # a refused mark leaves no record
    if run.plan.config.after is None:
        _write(run, record, KNOWN, judgement.known.dumps(), len(files))
        record.details["known_etag"] = etag
        record.details["known_is_damaged"] = known.copied_back_at is not None or (
            etag is not None and known == Known()
        )
    return judgement


def _reached_by_old_refs(run: Run, judgement: Judgement, files: Collection[str]) -> set[str]:
    if not run.plan.config.keep_old_refs:
        return set()
    # By the parents in the files: those in the repo info may differ.
    return with_ancestors(run.reader, {ref.tip for ref in judgement.old_refs if ref.tip in files}, ())


def _record_live(
    run: Run, record: StepRecord, history: History, live: set[str], refs: Mapping[str, int]
) -> None:
    pruned = {log for entry in history.snapshots.values() for log in entry.pruned}
    ids = {
        "snapshots.ids": live,
        "manifests.ids": refs.keys(),
        "transactions.ids": live | pruned,
        PRUNED: pruned - live,
    }
    for name, names in ids.items():
        record.parts.append(write_hashes(run.folder, f"{MarkOutput.STEP}/{name}", hash_ids(names)))
    _write(run, record, SNAPSHOT_NAMES, json.dumps(sorted(live)).encode(), len(live))
    record.details["history"] = history.digest


def _warn(run: Run, record: StepRecord) -> None:
    config = run.plan.config
    if config.after is not None and config.waits:
        record.warn(
            "this report takes the planned expiration as applied. Released objects first wait for"
            f" {duration_text(run.plan.grace)}"
        )
    if lost := record.counts.get("manifests_not_taken_away"):
        record.warn(
            f"the index has lost {lost:,} unused manifests: their chunks stay until the next clean run"
        )


def _warn_of_past(run: Run, record: StepRecord, roots: Roots, judgement: Judgement) -> None:
    days = f"{run.plan.config.keep_lost_days:g} days"
    record.counts["lost_tips"] = len(judgement.lost)
    record.details["old_refs"] = [[ref.label, ref.tip] for ref in judgement.old_refs]
    if judgement.lost:
        node, tip = min(judgement.lost.items(), key=lambda item: item[1].since)
        record.warn(
            f"{len(judgement.lost):,} snapshots were tips of refs and are unreachable now, such as {node} of {tip.ref}:"
            f" they and their objects are kept for {days} after the first run that missed them. If a ref was lost by"
            " mistake, restore it"
        )
    if roots.unnamed:
        record.warn(
            f"{len(roots.unnamed):,} unreferenced snapshot files without an expiration, such as {min(roots.unnamed)},"
            f" are kept with their objects for {days} after the first run that found them"
        )
    if judgement.old_refs:
        kept = "are kept" if run.plan.config.keep_old_refs else "are garbage unless the repo info lists them"
        record.warn(
            f"the upgrade to spec 2 left {len(judgement.old_refs):,} refs of spec 1, such as"
            f" {judgement.old_refs[0].label}: objects reachable from them {kept}. To release them, delete the folder"
            " refs/ or turn keep_old_refs off"
        )


@dataclass(frozen=True, slots=True)
class Roots:
    """The snapshots at which the mark starts: live tips, among them the unreachable ones younger than the cutoff
    (released or of a commit in progress) or without a referrer and a release; and the time of the youngest file."""

    tips: frozenset[str]
    young: frozenset[str]
    unnamed: frozenset[str]
    youngest: datetime | None = None


def choose_roots(
    history: History,
    files: Iterable[tuple[str, datetime]],
    cutoff: datetime,
    *,
    lost: Collection[str] = (),
    unnamed: Collection[str] = (),
) -> Roots:
    """Choose the live snapshots."""
    named = history.live()
    unreachable = {snapshot: time for snapshot, time in files if snapshot not in named}
    young = {snapshot for snapshot, time in unreachable.items() if not is_old(time, cutoff)}
    kept = unreachable.keys() & {*unnamed}
    return Roots(
        tips=frozenset(named | young | kept | {*lost}),
        young=frozenset(young),
        unnamed=frozenset(kept - young),
        youngest=max((unreachable[snapshot] for snapshot in young), default=None),
    )
