"""Deletes and restores files of `_lakefs/`. The only module with a deleter of exact versions.

    copied below the run's folder → in use now? → exactly the checked versions are deleted
    copies too old to be restored → in use now? → all their versions are deleted

The name of a file is made of its content, so any copy with the name is the right copy.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import ConflictError, DredgeError, RefusedError
from dredge.gc.namespaces import METADATA
from dredge.gc.run import METADATA_RUNS
from dredge.lakefs.files.ranges import is_table_id, read_metarange
from dredge.runs.folder import RunFolder, run_ids
from dredge.runs.payload import NamedParts, StepOutput
from dredge.storage import (
    NOT_SENT,
    NULL_VERSION,
    ObjectInfo,
    StorageOptions,
    open_copier,
    open_exact_version_deleter,
    open_reader,
    open_versions,
    open_writer,
)
from dredge.storage.model import MaySend
from dredge.storage.parallel import ordered_map
from dredge.undo.ways import quarantine_uri
from dredge.xid import descending_time

DELETED, KEPT, FAILED, UNSENT = "deleted", "kept", "failed", "not_sent"
PURGED = "purged"
_EVER = 36_500.0  # days: copies of any age


class MetadataOutput(StepOutput):
    """Result of a collection of metadata."""

    STEP = "metadata"

    # Rows of the chosen files, and of copies too old to be restored: `name`, `size`, `outcome`, `message`.
    ledger = NamedParts("ledger-")
    copies = NamedParts("copies-")


class File(Struct, frozen=True):
    """A file without a commit."""

    name: str  # in `_lakefs/`
    kind: str  # of table
    size: int
    versions: tuple[str, ...]  # ids of all its versions, newest first
    last_modified: datetime | None = None  # of the newest version; None for a copy


class Taken(Struct, frozen=True):
    """The outcome of a file."""

    file: File
    outcome: str  # "deleted", "kept", "failed", "not_sent" or "purged"
    message: str = ""  # the reason for any other outcome than "deleted"


def read_versions(
    namespace: str, names: Sequence[str], cutoff: datetime, options: StorageOptions | None = None
) -> Iterator[tuple[str, ...]]:
    """Read the version ids of each file, newest first; () for a file with a delete marker, or a version written at
    the cutoff or later."""
    reader = open_versions(namespace, options)

    def read(name: str) -> tuple[str, ...]:
        found = reader.versions(METADATA + name)
        if any(item.is_marker or item.last_modified >= cutoff for item in found):
            return ()
        return tuple(item.version_id for item in found)

    return ordered_map(read, names)


def copy_aside(
    namespace: str, run_uri: str, files: Sequence[File], options: StorageOptions | None = None
) -> list[Taken | None]:
    """Copy files below the run's folder; for each the failure, or None."""
    copier = open_copier(namespace, quarantine_uri(run_uri), options)

    def copy(file: File) -> Taken | None:
        try:
            copied = copier.copy(METADATA + file.name)
        except DredgeError as error:
            return Taken(file, FAILED, f"it could not be copied: {error}")
        return None if copied.size == file.size else Taken(file, FAILED, "its copy has another size")

    return list(ordered_map(copy, files))


def delete_files(
    namespace: str, files: Sequence[File], may_send: MaySend, options: StorageOptions | None = None
) -> Iterator[Taken]:
    """Delete exactly the given versions of files, asking `may_send` right before each request; a version written
    later stays."""
    if odd := next((file.name for file in files if not is_table_id(file.name)), None):
        raise RefusedError(f"{odd!r} is not named like a range or metarange. Nothing was deleted.")
    deleter = open_exact_version_deleter(namespace, options)
    for file in files:
        # The oldest first: readers get the current version until the end.
        wanted = [(METADATA + file.name, version) for version in reversed(file.versions)]
        outcomes = deleter.delete(wanted, may_send)
        bad = next((item for item in outcomes if item.outcome not in ("deleted", "missing")), None)
        if bad is None:
            yield Taken(file, DELETED)
        else:
            outcome = UNSENT if bad.code == NOT_SENT else FAILED
            yield Taken(file, outcome, f"{bad.code}: {bad.message or ''}")


def find_copies(
    namespace: str, wanted: Collection[str], now: datetime, days: float, options: StorageOptions | None = None
) -> dict[str, str]:
    """Find copies of files deleted by collections of metadata in the last days; return the URI of the run folder by
    name."""
    found: dict[str, str] = {}
    for run_id, uri in _runs(namespace, options):
        if not wanted or descending_time(run_id) < now - timedelta(days=days):
            break
        names = {info.key.removeprefix(METADATA) for info in _list_copies(uri, options)} & set(wanted)
        found |= {name: uri for name in names if name not in found}
    return found


class OldCopies(Struct, frozen=True):
    """Copies of a run too old to be restored."""

    run_uri: str
    files: list[File]  # to be deleted, each with the versions of its copy
    kept: list[str]  # names of the others: in use by a commit, or written while the bucket kept no versions


def old_copies(
    namespace: str, named: Collection[str], now: datetime, days: float, options: StorageOptions | None = None
) -> Iterator[OldCopies]:
    """Find copies of runs older than some days, too old to be restored; copies of files in use by commits stay, even
    of missing files."""
    for run_id, uri in _runs(namespace, options):
        if descending_time(run_id) >= now - timedelta(days=days):
            continue
        copies = _list_copies(uri, options)
        sizes = {info.key.removeprefix(METADATA): info.size for info in copies}
        free = [name for name in sorted(sizes) if name not in named and is_table_id(name)]
        versions = open_versions(quarantine_uri(uri), options)
        found = ordered_map(versions.versions, [METADATA + name for name in free])
        ids = [tuple(item.version_id for item in items) for items in found]
        files = [
            File(name, "copy", sizes[name], item)
            for name, item in zip(free, ids, strict=True)
            if item and NULL_VERSION not in item
        ]
        chosen = {file.name for file in files}
        if copies:
            yield OldCopies(uri, files, [name for name in sorted(sizes) if name not in chosen])


def purge_copies(
    copies: OldCopies, may_send: MaySend, options: StorageOptions | None = None
) -> Iterator[Taken]:
    """Delete all versions of copies, asking `may_send` right before each request; keys are relative to the folder of
    copies."""
    for taken in delete_files(quarantine_uri(copies.run_uri), copies.files, may_send, options):
        yield replace(taken, outcome=PURGED) if taken.outcome == DELETED else taken


def put_back(namespace: str, copies: dict[str, str], options: StorageOptions | None = None) -> list[str]:
    """Restore missing files from the run folders with their copies; return the names of the restored files."""
    back = []
    for name, uri in sorted(copies.items()):
        try:
            open_copier(quarantine_uri(uri), namespace, options).copy(METADATA + name, if_absent=True)
        except ConflictError:
            continue  # written meanwhile, with the same content
        back.append(name)
    return back


class Sought(Struct):
    """Result of a search for missing files."""

    # names of the restored files, also ranges of a restored metarange
    back: list[str] = field(default_factory=list)
    # id of the deleting collection of metadata, by name
    deleted_by: dict[str, str] = field(default_factory=dict)


def restore_metaranges(
    namespace: str,
    missing: Collection[str],
    there: Collection[str],
    now: datetime,
    options: StorageOptions | None = None,
) -> Sought:
    """Search missing metaranges in the ledgers of collections of metadata, and restore them from copies."""
    found = Sought(deleted_by=_deleted_by(namespace, missing, options))
    back = put_back(namespace, find_copies(namespace, missing, now, _EVER, options), options)
    reader = open_reader(namespace, options)
    ranges = {
        info.id
        for name in back
        for info in read_metarange(reader.get(METADATA + name), METADATA + name, expected_id=name)
    }
    copies = find_copies(namespace, ranges.difference(there), now, _EVER, options)
    found.back = [*back, *put_back(namespace, copies, options)]
    return found


def _deleted_by(namespace: str, names: Collection[str], options: StorageOptions | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for run_id, uri in _runs(namespace, options):
        folder = RunFolder(open_writer(uri, options), run_id)
        summary = folder.last_summary(MetadataOutput.STEP) or folder.read_incomplete(MetadataOutput.STEP)
        for part in () if summary is None else MetadataOutput.of(summary).ledger:
            rows = folder.read_part(part, ["name", "outcome"])
            gone = rows.filter(pc.equal(rows["outcome"], DELETED))["name"].to_pylist()
            found = dict.fromkeys({*gone} & {*names}, run_id) | found
    return found


def _runs(namespace: str, options: StorageOptions | None) -> Iterator[tuple[str, str]]:
    """List collections of metadata, newest first: id and URI of the folder."""
    root = f"{namespace.rstrip('/')}/{METADATA_RUNS}"
    return ((run_id, f"{root}/{run_id}") for run_id in run_ids(open_reader(root, options)))


def _list_copies(run_uri: str, options: StorageOptions | None) -> Sequence[ObjectInfo]:
    return open_reader(quarantine_uri(run_uri), options).list_level(METADATA).objects
