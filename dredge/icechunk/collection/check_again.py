"""Check again: compare the deletions of earlier runs with live objects.

Ids are never used again, so a live file that refers to a deleted object is an alarm: the object is restored where
possible, and deletions and purges stop until a person acknowledges the alarm. A run looks for missing objects in the
records of deletions (`dredge.undo.deletions`) before it reports damage.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import AlarmError, ConfigError, DredgeError, FormatError, NotFoundError
from dredge.hashing import hash64
from dredge.icechunk import repository
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.run import Run, read_plan
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.ids import encode_ids, hashes_of_names
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.sets.hashes import Hashes, contains, read_hashes, unite, unite_all
from dredge.storage import ObjectReader, StorageOptions, exists, open_writer
from dredge.undo import alarms, deletions
from dredge.undo.alarms import Alarm, alarm_error, open_alarms
from dredge.undo.deleted import SweptRun, swept_rows
from dredge.undo.deletions import Deletion, Deletions, read_deletions
from dredge.undo.putting_back import Restored, Source, alarm_rows, bring_back

log = logging.getLogger("dredge")

_REASON = "an earlier run deleted it, and live files need it"


def note_deletion(run: Run, record: StepRecord) -> None:
    """Record a sweep's candidates before its first deletion; an overtaken try records nothing."""
    record.attempt.check()
    candidates = record.input(ListCandidatesOutput)
    pieces: list[Hashes] = []
    for kind in repository.FOLDERS:
        for part in candidates.candidates(kind):
            rows = run.folder.read_part(part, ["address", "hash"])
            pieces.append(rows["hash"].to_numpy().astype(np.uint64))
            # Manifests have ids, not keys (`refuse_deleted_ids`).
            pieces.append(hashes_of_names(repository.names_of(kind, rows["address"]))[0])
    deletions.note_deletion(run, unite(pieces))


def absent_files(reader: ObjectReader) -> set[str]:
    """Return the keys of missing snapshots and manifests reachable from refs."""
    snapshots, manifests = (
        repository.list_names(reader, repository.SNAPSHOTS),
        repository.list_names(reader, repository.MANIFESTS),
    )
    absent: set[str] = set()
    waiting, seen = _named(reader), set[str]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node not in snapshots:
            absent.add(repository.SNAPSHOTS + node)
            continue
        try:
            found = parse_snapshot(reader.get(repository.SNAPSHOTS + node), repository.SNAPSHOTS + node)
        except (FormatError, NotFoundError):
            continue
        absent |= {repository.MANIFESTS + info.id for info in found.manifests if info.id not in manifests}
        waiting += [found.parent_id] if found.parent_id is not None and found.spec_version == 1 else []
    return absent


def _named(reader: ObjectReader) -> list[str]:
    try:
        return [entry.id for entry in repository.read_repo_info(reader).snapshots]
    except NotFoundError:
        return [*repository.read_refs(reader).values()]


def seeking_deleted(run: Run, work: Callable[[], None]) -> None:
    """Do `work`. If it raises FormatError for a missing live file, search the records of deletions for the file. Raises
    AlarmError: a run had deleted it."""
    try:
        work()
    except FormatError:
        refuse_deleted(run, run.folder.label, absent_files(run.reader))
        raise


def refuse_deleted(run: Run, label: str, absent: Collection[str]) -> None:
    """Restore live objects deleted by earlier runs, and raise the alarm (AlarmError) if there are any."""
    done = list[pa.Table]()
    left, tried, at = set(absent), set(absent), run.store_now()
    while left and (found := list(_deleted(run, left))):
        run.lease.check(run.plan.lease)
        not_yet = Restored(alarms.NOT_YET)
        waiting = [
            alarm_rows(source.run_id, source.rows, [not_yet] * source.rows.num_rows) for source in found
        ]
        alarms.write_alarm(run.state, label, run.plan.run_id, at, pa.concat_tables(done + waiting))
        for source in found:
            back = bring_back(run.plan.uri, run.state, source, _REASON, run.store_now, run.options)
            done.append(alarm_rows(source.run_id, source.rows, back))
        # A restored file needs more objects; the same run may have deleted these.
        keys = {key for source in found for key in source.rows["address"].to_pylist()}
        left = absent_files(run.reader) | _absent_chunks(run.reader, keys)
        left -= tried
        tried |= left
    if done:
        alarm = alarms.write_alarm(run.state, label, run.plan.run_id, at, pa.concat_tables(done))
        raise _error(run, [alarm])


def _absent_chunks(reader: ObjectReader, keys: Collection[str]) -> set[str]:
    absent: set[str] = set()
    for key in sorted(keys):
        if not key.startswith(repository.MANIFESTS):
            continue
        try:
            found = parse_manifest(reader.get(key), key)
        except (FormatError, NotFoundError):
            continue
        named = {repository.CHUNKS + name for name in encode_ids(found.native_ids).to_pylist()}
        with suppress(FormatError):
            virtual = found.virtual_ids(key)
            named |= {folder + name for folder in repository.OBJECT_FOLDERS.values() for name in virtual}
        absent |= {name for name in named if not exists(reader, name)}
    return absent


def refuse_deleted_ids(run: Run, live: Sequence[PartInfo], records: Deletions | None = None) -> None:
    """Compare the chunks of live manifests with the deletions of earlier runs, for runs without a listing of chunks.
    Raises AlarmError: an earlier run deleted a missing chunk; it was restored if possible."""
    named = unite_all(read_hashes(run.folder, part) for part in live)
    if not len(named):
        return

    def choose(_: Deletion, rows: pa.Table) -> pa.Table:
        chosen = []
        for kind, folder in repository.FOLDERS.items():
            of_kind = rows.filter(pc.starts_with(rows["address"], folder)).combine_chunks()
            found, is_id = hashes_of_names(repository.names_of(kind, of_kind["address"]))
            chosen.append(of_kind.filter(pa.array(contains(named, found) & is_id)))
        return pa.concat_tables(chosen)

    keys = {
        key
        for _, _, rows in _deleted_rows(run, named, choose, records)
        for key in rows["address"].to_pylist()
    }
    absent = {key for key in keys if not exists(run.reader, key)}
    if absent:
        refuse_deleted(run, run.folder.label, absent)


def refuse_alarmed(run: Run) -> None:
    """Refuse to delete while an alarm is open: AlarmError, or FormatError for an unreadable alarm."""
    if found := open_alarms(run.state):
        raise _error(run, found)


def _error(run: Run, found: list[Alarm]) -> AlarmError:
    command = f"dredge icechunk acknowledge {run.plan.uri}"
    return alarm_error(f"run {run.plan.run_id} of {run.plan.uri} deletes nothing", found, command)


def _deleted(run: Run, absent: Collection[str]) -> Iterator[Source]:
    left, seen = set(absent), _acknowledged(run.state)

    def choose(deletion: Deletion, rows: pa.Table) -> pa.Table:
        wanted = pa.array(sorted(left - seen.get(deletion.run_id, set())), pa.string())
        return rows.filter(pc.is_in(rows["address"], wanted))

    wanted = unite([hash64(pa.array(sorted(absent), pa.string()))])
    for deletion, swept, rows in _deleted_rows(run, wanted, choose):
        if rows.num_rows:
            left -= set(rows["address"].to_pylist())
            yield Source(run_id=deletion.run_id, run_uri=deletion.run_uri, way=swept.way, rows=rows)


def _deleted_rows(
    run: Run,
    wanted: Hashes,
    choose: Callable[[Deletion, pa.Table], pa.Table],
    records: Deletions | None = None,
) -> Iterator[tuple[Deletion, SweptRun, pa.Table]]:
    records = records or read_deletions(run.state)
    for problem in records.unread.values():
        log.warning("%s", problem)
    for deletion, hashes in zip(records.found, deletions.read_hashes(run.state, records.found), strict=True):
        if isinstance(hashes, str):
            log.warning("%s", hashes)
        elif not contains(wanted, hashes).any():
            continue
        try:
            swept = open_swept(deletion.run_uri, run.plan.uri, run.options)
            parts = (swept_rows(swept.folder, part, swept.below) for part in swept.candidates)
            rows = pa.concat_tables([choose(deletion, part) for part in parts]).combine_chunks()
        except DredgeError as error:
            log.warning("the deletions of run %s cannot be read: %s", deletion.run_id, error)
            continue
        yield deletion, swept, rows


def _acknowledged(state: ObjectReader) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for alarm in alarms.read_alarms(state):
        if alarm.acknowledged is None:
            continue
        rows = alarms.read_rows(state, alarm)
        for key, run_id in zip(rows["address"].to_pylist(), rows["deleted_by"].to_pylist(), strict=True):
            found.setdefault(run_id, set()).add(key)
    return found


def open_swept(run_uri: str, uri: str, options: StorageOptions | None = None) -> SweptRun:
    """Open a run with deletions. Raises ConfigError: there is no such run, it deleted nothing, or it collected another
    repository; FormatError: its files are damaged."""
    plan = read_plan(run_uri, options)
    if plan.uri.rstrip("/") != uri.rstrip("/"):
        raise ConfigError(f"run {plan.run_id} collected {plan.uri}, not {uri}. Nothing was changed.")
    folder = RunFolder(open_writer(run_uri, options), plan.run_id)
    output = None if plan.config.dry_run else folder.read_output(ListCandidatesOutput)
    if output is None:
        why = "it was a dry run" if plan.config.dry_run else "it stopped before it had candidates"
        raise ConfigError(f"run {plan.run_id} deleted nothing: {why}")
    parts = [part for kind in reversed(repository.FOLDERS) for part in output.candidates(kind)]
    return SweptRun(plan.undo.way, folder, parts, tuple(repository.FOLDERS.values()))
