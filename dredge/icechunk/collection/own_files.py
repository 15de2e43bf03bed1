"""The deleter of Dredge's own files in an Icechunk repository: what runs wrote for themselves below `_dredge/`.

    counted/…  state/versions/…  state/distrusted/…  index/parts/…  index/heads/…  pending/….parquet
    pins/<id>.json  pins/<id>/…  expirations/<id>/…  purges/<id>/…  runs/<run id>/…

It knows no other names. The repository's own objects, lease, pointers to the state and the pending list are none
of these, whoever asks.

How long Dredge's own files in a repository live: what a complete run removes at its end.

    run folders, those of purges, plans of expirations    older than `keep_runs_days`
    versions of the state                superseded for a week
    layers of counts                     named by no version that is left
    parts and heads of the index         superseded by compaction a week ago, or of a run that died before it named them
    parts of the pending list            of earlier lists, a week old
    pins                                 ended a week ago, and hashes of a restore that died before its pin counted

What may still be read stays: whatever a version of the state names that was the newest one at any time during the last
week (`dredge.runs.lifetimes`). The index answers for the manifests that
the newest version counts; of those that older versions counted, only garbage is kept longer when it does not.

Folders are removed only where a plan proves that they are runs of this repository; those in a run root that a user
named stay, and so do those with copies of what was deleted, until they are purged. The plan is removed last, so that
what an interrupted removal leaves is found again.

Compaction of the index: what live snapshots and manifests name goes into few parts, and the rest is forgotten.

Every run adds parts. When there are too many small ones, or most of a part is about manifests that nothing needs any
more, a new head is written that names the parts that stay as they are and new ones for the rest, and says which heads
it stands for. Nothing here deletes: what is read no more `save_report.lifetimes` removes a week later, for runs that
loaded the index before.

What a manifest names is copied from the part that counts are taken from, so what is taken away later is what was added.
A part that cannot be read is left out: its manifests, when they are live, are read from the repository again.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError
from dredge.icechunk.collection.index import (
    HEADS,
    PARTS,
    ManifestIndex,
    SnapshotRow,
    read_manifest_rows,
    write_manifest_rows,
    write_snapshot_rows,
)
from dredge.icechunk.collection.outputs import COUNTED, OwnFilesOutput, StateOutput
from dredge.icechunk.collection.run import PLAN, Run, parse_plan
from dredge.icechunk.collection.state import RunState, StateStore, open_base
from dredge.icechunk.format.manifests import NamedChunks
from dredge.icechunk.maintenance import EXPIRATIONS, RUNS, STATE
from dredge.runs.clock import check_clocks
from dredge.runs.folder import read_json
from dredge.runs.lifetimes import ListedFiles, counting_versions, run_ids
from dredge.runs.own_files import OwnFilesDeleter, remove_own_files
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.pending.store import superseded_parts
from dredge.runs.perform import StepRecord
from dredge.runs.versions import DISTRUSTED, KEEP_DAYS_MIN, VERSIONS, Version
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.storage.keys import is_plain
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.pins import PINS, Pin, read_pins
from dredge.undo.purge import FOLDER as PURGES
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import descending_time, is_xid

OWN_RUNS = RUNS.removeprefix(f"{STATE}/")
_BOOKKEEPING = re.compile(
    rf"(?:{'|'.join((COUNTED, VERSIONS, DISTRUSTED, PARTS, HEADS))})/[^/]+|{PENDING}/[^/]+\.parquet"
    rf"|{PINS}/[^/]+(?:/[^/]+)?"
)
_OF_ID = re.compile(rf"(?:{OWN_RUNS}|{EXPIRATIONS}|{PURGES})/([^/]+)/.+", re.DOTALL)


def own_files_deleter(uri: str, options: StorageOptions | None = None) -> OwnFilesDeleter:
    """Open the deleter of Dredge's own files of one repository; keys are relative to `_dredge`."""
    return OwnFilesDeleter(f"{uri.rstrip('/')}/{STATE}", is_own_file, options)


def is_own_file(key: str) -> bool:
    """Whether a key below `_dredge` is one that only Dredge writes, and that a later run can do without."""
    if not is_plain(key):
        return False
    of_id = _OF_ID.fullmatch(key)
    return is_xid(of_id[1]) if of_id is not None else _BOOKKEEPING.fullmatch(key) is not None


log = logging.getLogger("dredge")

_FOLDERS_MAX = 200
"""Old folders that one run looks into; what is left, the next runs remove."""


@dataclass(slots=True)
class Superseded:
    """What may be removed, as keys relative to `_dredge`.

    Attributes:
        bookkeeping: files of state, counts, pins and index.
        folders: files of each folder of a run or an expiration, its plan last.
        size_bytes: of all of them together.
    """

    bookkeeping: list[str] = field(default_factory=list)
    folders: dict[str, list[str]] = field(default_factory=dict)
    size_bytes: int = 0

    @property
    def keys(self) -> list[str]:
        """All of them, in the order in which they are removed."""
        return [*self.bookkeeping, *(key for keys in self.folders.values() for key in keys)]


def clean_up(run: Run) -> None:
    """Remove what nothing needs any more. Whatever goes wrong is a warning: no run is the worse for files that stay."""
    if run.plan.config.keep_runs_days is None:
        return
    try:
        run.step(OwnFilesOutput, lambda record: _clean_up(run, record), (StateOutput,))
    except DredgeError as error:
        log.warning("Dredge's own files were not cleaned up; a later run does it: %s", error)


def _clean_up(run: Run, record: StepRecord) -> None:
    found = find_superseded(run)
    record.counts.update(
        own_files=len(found.keys), own_bytes=found.size_bytes, own_folders=len(found.folders)
    )
    deleter = own_files_deleter(run.plan.uri, run.options)
    remove_own_files(deleter, found.keys, lambda: run.lease.check(run.plan.lease, run.store_now()), record)


def find_superseded(run: Run) -> Superseded:
    """Find what nothing needs any more; removes nothing.

    Raises:
        RefusedError: the store's clock and this machine's differ too much.
        DredgeError: the state, the index or a listing cannot be read, so that nothing can be said.
    """
    now = run.store_now()
    # By a clock that jumped, everything would be old.
    check_clocks((now - run.clock()).total_seconds(), run.plan.config.safety.clock_skew_seconds_max)
    week_ago = now - timedelta(days=KEEP_DAYS_MIN)
    # Listed first: what a version names that is written meanwhile is new, or named by the one before it.
    places = ("state", COUNTED, "index", PINS, PENDING)
    listed_now = ordered_map(
        lambda place: ListedFiles.of(run.state, f"{place}/", week_ago), places, len(places)
    )
    files = dict(zip(places, listed_now, strict=True))
    with at_once() as ask:
        versions_read = ask(counting_versions, StateStore(run.state, run.options), files["state"], "")
        index, pins = ask(ManifestIndex.load, run.state), ask(read_pins, run.state)
        of_list = superseded_parts(run.state, files[PENDING])
    versions = versions_read.result()
    found = Superseded()
    found.bookkeeping += _state(files["state"], versions)
    named = {part.name for state in versions.values() for part in state.counted.parts}
    found.bookkeeping += [key for key in files[COUNTED].old(f"{COUNTED}/") if key not in named]
    found.bookkeeping += _index(index.result(), files["index"])
    found.bookkeeping += of_list
    found.bookkeeping += _ended_pins(pins.result(), files[PINS], week_ago)
    sizes = {key: size for listed in files.values() for key, size in listed.sizes.items()}
    found.size_bytes = sum(sizes[key] for key in found.bookkeeping)
    _find_folders(run, now, versions.values(), found)
    return found


def _state(files: ListedFiles, versions: Iterable[str]) -> Iterator[str]:
    # A note on a version goes with it.
    kept = {*versions, *(f"{DISTRUSTED}/{name.rpartition('/')[2]}" for name in versions)}
    for place in (VERSIONS, DISTRUSTED):
        yield from (key for key in files.old(f"{place}/") if key not in kept)


def _index(index: ManifestIndex, files: ListedFiles) -> Iterator[str]:
    """Files of the index that no run reads, nor one that loaded the index a week ago."""
    # A head goes when the one that stands for it is old; the oldest first, so that none comes into force again.
    gone = {name for name, by in index.superseded.items() if files.aged.intersection(by)}
    yield from (key for key in reversed(files.old(f"{HEADS}/")) if key in gone)
    if index.unread_heads - gone:
        return  # these may name any part
    waiting = [by for name, by in index.superseded.items() if name not in gone and name in files.sizes]
    kept = index.part_names.union(*(parts for by in waiting for parts in by.values()))
    yield from (key for key in files.old(f"{PARTS}/") if key not in kept)


def _ended_pins(read: Iterable[Pin], files: ListedFiles, week_ago: datetime) -> Iterator[str]:
    """Files of pins that hold nothing any more; the record of each before its hashes, which nobody reads without it."""
    pins = {pin.pin_id: pin for pin in read}
    for key in files.old(f"{PINS}/"):
        name, _, is_hashes = key.removeprefix(f"{PINS}/").partition("/")
        pin = pins.get(name.removesuffix(".json"))
        if bool(is_hashes) if pin is None else pin.until < week_ago:
            yield key


def _find_folders(run: Run, now: datetime, versions: Iterable[RunState], found: Superseded) -> None:
    """Find the folders of old runs of this repository that no version of the state names, and those of old plans of
    expirations and of old purges."""
    days = run.plan.config.keep_runs_days
    assert days is not None
    oldest = now - timedelta(days=days)
    named = {state.run_uri for state in versions}
    kept = {uri.rstrip("/").rpartition("/")[2] for uri in named} | {run.plan.run_id}
    places = {OWN_RUNS: _is_ours, EXPIRATIONS: None, PURGES: None}
    folders_of = {place: open_reader(f"{run.state.uri}/{place}", run.options) for place in places}
    there = ordered_map(run_ids, list(folders_of.values()), len(places))
    for (place, is_ours), names in zip(places.items(), there, strict=True):
        folders = folders_of[place]
        old = [name for name in names if name not in kept and descending_time(name) < oldest]
        # Chosen at random, so that folders that stay for ever do not keep others from being looked into.
        for name in random.Random(run.plan.run_id).sample(old, min(len(old), _FOLDERS_MAX)):
            if is_ours is not None and (not is_ours(run, folders, name) or _has_copies(folders, name)):
                continue
            files = ListedFiles.of(run.state, f"{place}/{name}/", oldest)
            if len(files.aged) < len(files.sizes):
                continue  # somebody went on with it
            plan = f"{place}/{name}/{PLAN}"
            last = [plan] if plan in files.sizes else []
            found.folders[f"{place}/{name}"] = [*(key for key in files.below("") if key != plan), *last]
            found.size_bytes += sum(files.sizes.values())


def _has_copies(runs: ObjectReader, run_id: str) -> bool:
    """Whether copies of what a run deleted are left: only a purge lets them go, and only the ledger names them."""
    return next(iter(runs.list(f"{run_id}/{QUARANTINE_FOLDER}/")), None) is not None


def _is_ours(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """Whether a folder is proved by its plan to be of a run of this repository."""
    try:
        plan = parse_plan(read_json(runs, f"{run_id}/{PLAN}"))
    except (ConfigError, FormatError, NotFoundError):
        return False  # of another version
    return (
        plan.run_id == run_id
        and plan.uri.rstrip("/") == run.plan.uri.rstrip("/")
        and plan.run_uri.rstrip("/") == f"{runs.uri}/{run_id}"
    )


PART_IDS = 2_000_000
"""About so many ids make a part of manifests."""
_SMALL_BYTES = PART_IDS * 8 // 4


def compact_index(run: Run, version: Version) -> int:
    """Unite small parts of the index and forget what nothing needs, when that is worth it.

    Returns:
        How many parts of manifests are read no more; 0 when nothing was done.

    Raises:
        DredgeError: the state, or the index, could not be read or written. The index is as it was.
    """
    index = ManifestIndex.load(run.state)
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
    # What the mark did not see is for the next one: a run that was taken for lost may have written it since.
    unseen = index.snapshots(run.state, base.state.seen)
    # Beside the row of what either of two reads names, one of nothing: so the index still knows that they differed.
    contradicted = {*base.state.contradicted, *index.contradicted}
    named = [*rows.values(), *unseen.values(), *(SnapshotRow(name, (), ()) for name in contradicted)]
    snapshots = write_snapshot_rows(run.state, f"{label}-snapshots-00000", named)
    replaces = {*index.heads, *index.superseded, *index.unread_heads}
    run.lease.check(run.plan.lease)
    index.add(run.state, label, [snapshots], [*kept, *written], sorted(replaces))
    log.info("index: of %d parts of manifests %d were united into %d", len(wanted), len(going), len(written))
    return len(going)


def _wanted(index: ManifestIndex, live: set[str]) -> dict[str, list[str]]:
    """Give the live manifests of each part; one that several have is of the first, as when counts are made."""
    left = set(live)
    found: dict[str, list[str]] = {}
    for name in sorted(index.manifests_of):
        found[name] = [item for item in index.manifests_of[name] if item in left]
        left.difference_update(found[name])
    return found


def _that_go(index: ManifestIndex, wanted: dict[str, list[str]], parts_max: int) -> list[str] | None:
    """Choose the parts whose live manifests go into new ones; None when that is not worth it yet."""
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
    """As `compact_index`; whatever goes wrong is a warning, because a large index is only slow."""
    try:
        compact_index(run, version)
    except DredgeError as error:
        log.warning("the index was not compacted; a later run does it: %s", error)
