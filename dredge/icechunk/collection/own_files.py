"""Dredge's own files below `_dredge/` in a repository: lifetimes, deleter, and compaction of the index.

    run folders, purges, plans of expirations    older than `keep_runs_days`
    versions of the state                superseded for a week
    layers of counts                     in no version that is left
    parts and heads of the index         replaced by a compaction a week ago, or from a crashed run without their head
    parts of the pending list            of earlier lists, a week old
    pins                                 ended a week ago, and hashes of a crashed restore without their pin

Files of each version of the state used in the last week are kept (`dredge.runs.cleanup`). The index has the manifests
of the newest version; manifests missing for older versions only keep garbage longer.

A run removes folders only if their plan proves that they are runs of this repository, and if they are in `_dredge/`;
folders with copies of deleted objects stay until a purge. The plan is removed last, so the next run finds the rest of
an interrupted removal.

Compaction writes the live manifests of small parts of the index into few parts, and forgets the rest.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError
from dredge.icechunk.collection.index import (
    HEADS,
    PARTS,
    ManifestIndex,
    read_manifest_rows,
    unite_rows,
    write_manifest_rows,
    write_snapshot_rows,
)
from dredge.icechunk.collection.outputs import COUNTED, MarkOutput, StateOutput
from dredge.icechunk.collection.run import PLAN, Run, RunState, StateStore, open_base, parse_plan
from dredge.icechunk.format.manifests import NamedChunks
from dredge.icechunk.maintenance import EXPIRATIONS, RUNS, STATE
from dredge.runs import cleanup
from dredge.runs.cleanup import OwnFilesDeleter, OwnFilesOutput, remove_own_files
from dredge.runs.clock import check_clocks
from dredge.runs.folder import read_json
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.pending.store import list_superseded_parts
from dredge.runs.versions import DISTRUSTED, KEEP_DAYS_MIN, VERSIONS, Version
from dredge.storage import ObjectReader, StorageOptions
from dredge.storage.keys import is_plain
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.pins import PINS, Place, ended_pins, find_old_folders, read_pins
from dredge.undo.ways import PURGES_FOLDER
from dredge.xid import is_xid

OWN_RUNS = RUNS.removeprefix(f"{STATE}/")
_BOOKKEEPING = re.compile(
    rf"(?:{'|'.join((COUNTED, VERSIONS, DISTRUSTED, PARTS, HEADS))})/[^/]+|{PENDING}/[^/]+\.parquet"
    rf"|{PINS}/[^/]+(?:/[^/]+)?"
)
_OF_ID = re.compile(rf"(?:{OWN_RUNS}|{EXPIRATIONS}|{PURGES_FOLDER})/([^/]+)/.+", re.DOTALL)

log = logging.getLogger("dredge")
PART_IDS = 2_000_000
"""Approximate number of ids in a part of manifests."""
_SMALL_BYTES = PART_IDS * 8 // 4


def own_files_deleter(uri: str, options: StorageOptions | None = None) -> OwnFilesDeleter:
    """The deleter of own files in a repository; it refuses all other keys."""
    return OwnFilesDeleter(f"{uri.rstrip('/')}/{STATE}", is_own_file, options)


def is_own_file(key: str) -> bool:
    """Return whether a key is that of a removable own file below `_dredge/`. The lease and the pointers to the state
    and the pending list are not removable."""
    if not is_plain(key):
        return False
    of_id = _OF_ID.fullmatch(key)
    return is_xid(of_id[1]) if of_id is not None else _BOOKKEEPING.fullmatch(key) is not None


def clean_up(run: Run, superseded: Callable[[], cleanup.Superseded]) -> None:
    """Remove superseded files of a complete run, from `find_superseded`. A failure is only logged."""
    if run.plan.config.keep_runs_days is None:
        return
    deleter = own_files_deleter(run.plan.uri, run.options)
    try:
        run.step(
            OwnFilesOutput,
            lambda record: remove_own_files(run, record, superseded(), deleter),
            (StateOutput,),
        )
    except DredgeError as error:
        log.warning("Dredge's own files were not cleaned up; a later run tries again: %s", error)


def find_superseded(run: Run) -> cleanup.Superseded:
    """Find unneeded own files; none if `keep_runs_days` is empty. Read-only. Raises RefusedError: the clocks of the
    store and this machine differ too much; DredgeError: the state, the index or a listing cannot be read."""
    if run.plan.config.keep_runs_days is None:
        return cleanup.Superseded()
    now = run.store_now()
    # A clock that jumped would make all files old.
    check_clocks((now - run.clock()).total_seconds(), run.plan.config.safety.clock_skew_seconds_max)
    week_ago = now - timedelta(days=KEEP_DAYS_MIN)
    # Listed before the versions are read: a file of a version written meanwhile is new, or in the version before.
    places = ("state", COUNTED, "index", PINS, PENDING)
    listed = ordered_map(
        lambda place: cleanup.ListedFiles.of(run.state, f"{place}/", week_ago), places, len(places)
    )
    files = cleanup.ListedFiles.unite(listed)
    with at_once() as ask:
        versions_read = ask(cleanup.read_recent_versions, StateStore(run.state, run.options), files, "")
        index, pins = ask(ManifestIndex.load, run.state), ask(read_pins, run.state)
        of_list = list_superseded_parts(run.state, files)
    versions = versions_read.result()
    counted = [part for state in versions.values() for part in state.counted.parts]
    if (mark := run.folder.read_output(MarkOutput)) is not None and mark.counted is not None:
        counted += mark.counted.parts  # its version may not be there yet
    found = cleanup.Superseded(cleanup.find_superseded_versions(files, "", COUNTED, versions, counted))
    found.bookkeeping += _index(index.result(), files)
    found.bookkeeping += of_list
    found.bookkeeping += ended_pins(pins.result(), files, "", lambda pin: pin.until < week_ago)
    found.size_bytes = sum(files.sizes[key] for key in found.bookkeeping)
    _find_folders(run, now, versions.values(), found)
    return found


def _index(index: ManifestIndex, files: cleanup.ListedFiles) -> Iterator[str]:
    # A replaced head is removed once the newer head is old; the oldest first, so that none is in force again.
    gone = {name for name, by in index.superseded.items() if files.aged.intersection(by)}
    yield from (key for key in reversed(files.old(f"{HEADS}/")) if key in gone)
    if index.unread_heads - gone:
        return  # these may have any part
    waiting = [by for name, by in index.superseded.items() if name not in gone and name in files.sizes]
    kept = index.part_names.union(*(parts for by in waiting for parts in by.values()))
    yield from (key for key in files.old(f"{PARTS}/") if key not in kept)


def _find_folders(run: Run, now: datetime, versions: Iterable[RunState], found: cleanup.Superseded) -> None:
    days = run.plan.config.keep_runs_days
    assert days is not None
    oldest = now - timedelta(days=days)
    named = {state.run_uri for state in versions}
    kept = {uri.rstrip("/").rpartition("/")[2] for uri in named} | {run.plan.run_id}
    places = [Place(OWN_RUNS, kept, partial(_is_ours, run))]
    places += [Place(name, kept, lambda _runs, _run_id: True) for name in (EXPIRATIONS, PURGES_FOLDER)]
    listed = ordered_map(lambda place: find_old_folders(run, run.state, place, oldest), places, len(places))
    for old in listed:
        found.folders |= old.folders
        found.size_bytes += old.size_bytes


def _is_ours(run: Run, runs: ObjectReader, run_id: str) -> bool:
    try:
        plan = parse_plan(read_json(runs, f"{run_id}/{PLAN}"))
    except (ConfigError, FormatError, NotFoundError):
        return False  # of another version
    return (
        plan.run_id == run_id
        and plan.uri.rstrip("/") == run.plan.uri.rstrip("/")
        and plan.run_uri.rstrip("/") == f"{runs.uri}/{run_id}"
    )


def compact_index(run: Run, version: Version) -> int:
    """Merge small parts of the index and forget unneeded parts, if worthwhile; returns the number of replaced parts.
    Raises DredgeError: the state or the index could not be read or written, and the index is unchanged."""
    index = run.read_index()
    base = open_base(version, run.state, run.options)
    rows = base.rows
    live = {manifest for row in rows.values() for manifest in row.manifests}
    wanted = _wanted(index, live)
    going = _that_go(index, wanted, run.plan.config.tuning.index_parts_max)
    if going is None:
        return 0
    label = f"{run.folder.label}-compacted"
    written = [
        (
            write_manifest_rows(run.state, f"{label}-manifests-{number:05d}", batch),
            [name for name, _ in batch],
        )
        for number, batch in enumerate(_batches(run, index, wanted, going))
    ]
    kept = [(index.manifest_parts[name], index.manifests_of[name]) for name in wanted if name not in going]
    # Reads after the mark are for the next run: a run with a lost lease may have written them.
    unseen = index.snapshots(run.state, base.state.seen)
    named = [*unite_rows([*rows.values(), *unseen.values()]).values()]
    snapshots = write_snapshot_rows(run.state, f"{label}-snapshots-00000", named)
    replaces = {*index.heads, *index.superseded, *index.unread_heads}
    run.lease.check(run.plan.lease)
    index.add(run.state, label, [snapshots], [*kept, *written], sorted(replaces))
    log.info("index: of %d parts of manifests %d were merged into %d", len(wanted), len(going), len(written))
    return len(going)


def _wanted(index: ManifestIndex, live: set[str]) -> dict[str, list[str]]:
    left = set(live)
    found: dict[str, list[str]] = {}
    for name in sorted(index.manifests_of):
        found[name] = [item for item in index.manifests_of[name] if item in left]
        left.difference_update(found[name])
    return found


def _that_go(index: ManifestIndex, wanted: dict[str, list[str]], parts_max: int) -> list[str] | None:
    small = [name for name in wanted if index.manifest_parts[name].size_bytes < _SMALL_BYTES]
    dead = {name for name in wanted if 2 * len(wanted[name]) < len(index.manifests_of[name])}
    if len(small) > parts_max or len(index.heads) > parts_max:
        return sorted({*small, *dead})
    size_bytes = sum(index.manifest_parts[name].size_bytes for name in dead)
    return sorted(dead) if size_bytes >= _SMALL_BYTES else None


def _batches(
    run: Run, index: ManifestIndex, wanted: dict[str, list[str]], names: Sequence[str]
) -> Iterator[list[tuple[str, NamedChunks]]]:
    batch: list[tuple[str, NamedChunks]] = []
    for name in names:
        needed = set(wanted[name])
        if not needed:
            continue
        try:
            batch += [
                row for row in read_manifest_rows(run.state, index.manifest_parts[name]) if row[0] in needed
            ]
        except FormatError as error:
            log.warning("%s is not compacted: %s", name, error)
        if sum(len(ids) for _, chunks in batch for ids in chunks) >= PART_IDS:
            yield batch
            batch = []
    if batch:
        yield batch


def keep_small(run: Run, version: Version) -> None:
    """Compact the index; an error is only logged, because an uncompacted index is only slower."""
    try:
        compact_index(run, version)
    except DredgeError as error:
        log.warning("the index was not compacted, a later run will: %s", error)
