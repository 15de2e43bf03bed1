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
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from dredge.errors import FormatError, RefusedError
from dredge.icechunk import repository
from dredge.icechunk.collection.check_again import seeking_deleted
from dredge.icechunk.collection.index import (
    ManifestIndex,
    SnapshotRow,
    cache_uri,
    read_snapshot_rows,
    refs_by_manifest,
    snapshot_rows,
    unite_rows,
    write_snapshot_rows,
)
from dredge.icechunk.collection.mark.chunks import find_live_chunks
from dredge.icechunk.collection.outputs import MarkOutput, is_virtual
from dredge.icechunk.collection.run import Run, snapshots_table
from dredge.icechunk.collection.witness.judging import Judgement, judge
from dredge.icechunk.collection.witness.record import FORGET_LOST, KNOWN, Known, read_known
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.history import History
from dredge.icechunk.ids import hash_ids
from dredge.runs.consents import Consent, read_consents
from dredge.runs.parts import cache_parts, parquet_bytes
from dredge.runs.payload import PartInfo, StepSummary
from dredge.runs.report import duration_text
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, partition_function
from dredge.sets.hashes import Hashes, read_hashes, unite_all, write_hashes
from dredge.storage import ObjectReader, exists
from dredge.storage.parallel import at_once, ordered_map


def with_ancestors(reader: ObjectReader, tips: Collection[str], history: Collection[str]) -> set[str]:
    """Add the ancestors of tips outside the history, from the parent ids in files of spec 1."""
    live = set(tips)
    waiting = [snapshot for snapshot in live if snapshot not in history]
    while waiting:
        parents = set()
        for key, data in reader.get_many([repository.SNAPSHOTS + snapshot for snapshot in waiting]):
            parent = parse_snapshot(data, key).parent_id
            if parent is not None and parent not in live:
                parents.add(parent)
        # Another tool may have collected an ancestor.
        waiting = [parent for parent in parents if exists(reader, repository.SNAPSHOTS + parent)]
        live.update(waiting)
    return live


def ancestors_seen(
    tips: Collection[str], parents: Mapping[str, Collection[str]], released: Collection[str]
) -> set[str]:
    """The ancestors in the record of earlier marks: files of spec 2 have no parent id."""
    found: set[str] = set()
    waiting = list(tips)
    while waiting:
        parents_of = set(parents.get(waiting.pop(), ())).difference(found, released)
        found |= parents_of
        waiting += parents_of
    return found


@partition_function
def read_snapshots(run: WorkerRun, _: None, task: tuple[str, list[str]]) -> PartInfo:
    """Read snapshot files, and write their manifests as a part of the index named `name`."""
    name, snapshots = task
    rows = list(snapshot_rows(run.open_store(), snapshots, repository.READS_AT_ONCE))
    run.progress.add(len(rows))
    return write_snapshot_rows(run.open_state(), name, rows)


def index_snapshots(
    run: Run, runner: TaskRunner, known: Mapping[str, SnapshotRow], live: set[str]
) -> tuple[list[SnapshotRow], list[PartInfo]]:
    """Read live snapshots that `known` (from `read_index`) lacks; return all rows, and the new parts, which get a head
    after their manifests were read: a damaged read with wrong manifests must not keep later runs from a better read."""
    rows = dict(known)
    lacking = sorted(live - rows.keys())
    label = run.folder.label
    chunks = in_chunks(lacking, -(-len(lacking) // run.plan.config.tuning.snapshots_per_task))
    tasks = [(f"{label}-snapshots-{number:05d}", ids) for number, ids in enumerate(chunks)]
    written = run.spread(runner, MarkOutput.STEP, read_snapshots, None, tasks, "snapshots", len(lacking))
    for found in ordered_map(partial(read_snapshot_rows, run.state), written, repository.AT_ONCE):
        rows |= {row.snapshot: row for row in found}
    if missing := live - rows.keys():
        raise FormatError(
            f"{run.plan.uri}: {len(missing)} live snapshots were not read, such as {min(missing)}. Nothing was"
            " deleted. Start a new run."
        )
    return [rows[snapshot] for snapshot in sorted(live)], written


def read_index(run: Run) -> tuple[ManifestIndex, dict[str, SnapshotRow]]:
    """Read the index and its snapshots."""
    run.index = index = ManifestIndex.load(run.state)
    if run.base is None:
        return index, index.snapshots(run.state)
    later = index.snapshots(run.state, run.base.state.seen)
    return index, unite_rows([*run.base.rows.values(), *later.values()])


def mark(run: Run, runner: TaskRunner) -> StepSummary:
    """Find all live objects. Raises FormatError, AlarmError: a live file is missing or damaged, or an earlier run had
    deleted it; RefusedError: the repository has no main, or is not online."""
    with cache_parts(cache_uri(run.state)), cache_parts(run.reader.uri):
        return run.step(MarkOutput, lambda record: seeking_deleted(run, lambda: _mark(run, runner, record)))


def _mark(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    with at_once() as ask:
        # No order is needed: files written since this listing are young in the listing of candidates, and the re-check
        # looks for snapshots written since the plan.
        listed = ask(repository.list_snapshots, run.reader)
        past, said = ask(read_known, run.state), ask(read_consents, run.state, FORGET_LOST)
        indexed = ask(read_index, run)
        ask(run.store_now)  # later steps need the time
        known = repository.KnownSnapshots() if run.base is None else run.base.known
        actual = repository.read_history(run.reader, known=known, files=listed)
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
    _write(run, record, "kept-manifests.json", json.dumps(sorted(kept - gone)).encode(), len(kept - gone))
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
    _write(run, record, "snapshots.parquet", parquet_bytes(snapshots_table(rows, known)), len(rows))
    index.add(run.state, f"{run.folder.label}-1", parts, [])
    record.details["seen"] = index.seen
    _warn(run, record)
    _warn_of_past(run, record, roots, judgement)


def _gone(run: Run, kept: Collection[str]) -> set[str]:
    # No ref reaches the snapshots of these manifests: a missing file is no damage.
    return set(kept) - repository.list_names(run.reader, repository.MANIFESTS) if kept else set()


def _find_chunks(
    run: Run, runner: TaskRunner, record: StepRecord, index: ManifestIndex, refs: Mapping[str, int]
) -> None:
    chunks = find_live_chunks(run, runner, index, run.base, refs)
    virtual = (read_hashes(run.folder, part) for part in chunks.sets if is_virtual(part))
    if chunks.counted is not None:
        record.details["counted"] = chunks.counted
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
    _write(run, record, "new-manifests.json", json.dumps(new).encode(), len(new))


def _record_virtual(run: Run, record: StepRecord, pieces: Iterable[Hashes]) -> None:
    name = f"{MarkOutput.STEP}/virtual.ids"
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
        "pruned.ids": pruned - live,
    }
    for name, names in ids.items():
        record.parts.append(write_hashes(run.folder, f"{MarkOutput.STEP}/{name}", hash_ids(names)))
    _write(run, record, "snapshots.json", json.dumps(sorted(live)).encode(), len(live))
    record.details["history"] = history.digest


def _warn(run: Run, record: StepRecord) -> None:
    config = run.plan.config
    if config.after is not None and config.waits:
        record.warn(
            "this report counts as if the planned expiration were applied. A real run deletes released objects only"
            f" after {duration_text(run.plan.grace)}"
        )
    if lost := record.counts.get("manifests_not_taken_away"):
        record.warn(
            f"the index no longer has {lost:,} unreachable manifests: their chunks stay until the next clean run"
        )


def _warn_of_past(run: Run, record: StepRecord, roots: Roots, judgement: Judgement) -> None:
    days = f"{run.plan.config.keep_lost_days:g} days"
    record.counts["lost_tips"] = len(judgement.lost)
    record.details["old_refs"] = [[ref.label, ref.tip] for ref in judgement.old_refs]
    if judgement.lost:
        node, tip = min(judgement.lost.items(), key=lambda item: item[1].since)
        record.warn(
            f"{len(judgement.lost):,} former tips of refs are unreachable, such as snapshot {node} of {tip.ref}. They"
            f" and their objects are kept for {days} after the first run that missed them. If a ref was lost by"
            " mistake, restore it"
        )
    if roots.unnamed:
        record.warn(
            f"{len(roots.unnamed):,} snapshot files, such as {min(roots.unnamed)}, are unreferenced, but no expiration"
            f" released them: they are kept with their objects for {days} after the first run that found them"
        )
    if judgement.old_refs:
        kept = "are kept" if run.plan.config.keep_old_refs else "are garbage unless the repo info lists them"
        record.warn(
            f"the upgrade to spec 2 left {len(judgement.old_refs):,} refs of spec 1, such as"
            f" {judgement.old_refs[0].label}: objects reachable from them {kept}. To release them, delete the folder"
            " refs/ or turn keep_old_refs off"
        )


class Roots(Struct, frozen=True):
    """The snapshots at which the mark starts. `young` are the unreachable ones younger than the cutoff, `unnamed` are
    unreferenced and unreleased snapshots; `youngest` is the time of the youngest file."""

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
    young = {snapshot for snapshot, time in unreachable.items() if not repository.is_old(time, cutoff)}
    kept = unreachable.keys() & {*unnamed}
    return Roots(
        tips=frozenset(named | young | kept | {*lost}),
        young=frozenset(young),
        unnamed=frozenset(kept - young),
        youngest=max((unreachable[snapshot] for snapshot in young), default=None),
    )
