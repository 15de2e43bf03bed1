"""Lets files of `_lakefs/` go, and puts them back. The only module that is handed a deleter of exact versions.

    copied below the run's folder → named by then? → the very versions that were looked at are deleted
    copies that are too old to be put back → named by now? → all their versions are deleted

A file is found again by its name alone, which is made of its content: whatever copy has it is the right one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from dredge.errors import ConflictError, DredgeError, RefusedError
from dredge.gc.namespaces import METADATA
from dredge.gc.plan import METADATA_RUNS
from dredge.lakefs.files.ranges import is_table_id
from dredge.runs.folder import run_ids
from dredge.storage import (
    NOT_SENT,
    NULL_VERSION,
    StorageOptions,
    VersionReader,
    open_copier,
    open_exact_version_deleter,
    open_reader,
    open_versions,
)
from dredge.storage.model import MaySend
from dredge.storage.parallel import ordered_map
from dredge.undo.ways import quarantine_uri
from dredge.xid import descending_time

DELETED, KEPT, FAILED, UNSENT = "deleted", "kept", "failed", "not_sent"
PURGED = "purged"
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class File:
    """A file that no commit names.

    Attributes:
        name: in `_lakefs/`.
        kind: of table.
        size: bytes.
        versions: ids of all versions that it has, the newest first.
        last_modified: of the newest; None of a copy.
    """

    name: str
    kind: str
    size: int
    versions: tuple[str, ...]
    last_modified: datetime | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a file.

    Attributes:
        file: that was to go.
        outcome: "deleted", "kept", "failed" or "not_sent".
        message: why it stayed.
    """

    file: File
    outcome: str
    message: str = ""


def versions_of(
    namespace: str, names: Sequence[str], cutoff: datetime, options: StorageOptions | None = None
) -> Iterator[tuple[str, ...]]:
    """Ids of all versions of each file, the newest first; none for a file of which one is young, or a delete marker.

    Args:
        namespace: URI of the storage namespace.
        names: of the files.
        cutoff: versions that were written then or later are young.
        options: how the store is reached; None reads the environment.
    """
    reader = open_versions(namespace, options)

    def look(name: str) -> tuple[str, ...]:
        found = reader.versions(METADATA + name)
        if any(item.is_marker or item.last_modified >= cutoff for item in found):
            return ()
        return tuple(item.version_id for item in found)

    return ordered_map(look, names, _AT_ONCE)


def copy_aside(
    namespace: str, run_uri: str, files: Sequence[File], options: StorageOptions | None = None
) -> list[Taken | None]:
    """Copy files below the run's folder; gives for each why it has to stay, None where it was copied."""
    copier = open_copier(namespace, quarantine_uri(run_uri), options)

    def copy(file: File) -> Taken | None:
        try:
            copied = copier.copy(METADATA + file.name)
        except DredgeError as error:
            return Taken(file, FAILED, f"it could not be copied: {error}")
        return None if copied.size == file.size else Taken(file, FAILED, "its copy has another size")

    return list(ordered_map(copy, files, _AT_ONCE))


def delete_files(
    namespace: str, files: Sequence[File], may_send: MaySend, options: StorageOptions | None = None
) -> Iterator[Taken]:
    """Delete exactly the versions of files that were looked at; what was written since is another version and stays.

    Args:
        namespace: URI of the storage namespace.
        files: each with the versions that go.
        may_send: asked right before each request.
        options: how the store is reached; None reads the environment.

    Raises:
        RefusedError: one of them is no range and no metarange by its name; none was deleted.
    """
    if odd := next((file.name for file in files if not is_table_id(file.name)), None):
        raise RefusedError(f"{odd!r} is not named like a range or metarange. Nothing was deleted.")
    deleter = open_exact_version_deleter(namespace, options)
    for file in files:
        # The oldest first: the current one is what a reader gets as long as it is there.
        wanted = [(METADATA + file.name, version) for version in reversed(file.versions)]
        outcomes = deleter.delete(wanted, may_send)
        bad = next((item for item in outcomes if item.outcome not in ("deleted", "missing")), None)
        if bad is None:
            yield Taken(file, DELETED)
        else:
            outcome = UNSENT if bad.code == NOT_SENT else FAILED
            yield Taken(file, outcome, f"{bad.code}: {bad.message or ''}")


def find_copies(
    namespace: str,
    wanted: Collection[str],
    now: datetime,
    days: float,
    options: StorageOptions | None = None,
) -> dict[str, str]:
    """Find copies of files that earlier runs, or this one, let go.

    Args:
        namespace: URI of the storage namespace.
        wanted: names of the files.
        now: by the store's clock.
        days: runs of so many days are looked through.
        options: how the store is reached; None reads the environment.

    Returns:
        URI of the folder of the run that has one, by name.
    """
    root = f"{namespace.rstrip('/')}/{METADATA_RUNS}"
    found: dict[str, str] = {}
    for run_id in run_ids(open_reader(root, options)):
        if not wanted or descending_time(run_id) < now - timedelta(days=days):
            break
        uri = f"{root}/{run_id}"
        copies = open_reader(quarantine_uri(uri), options).list_level(METADATA).objects
        names = {info.key.removeprefix(METADATA) for info in copies} & set(wanted)
        found |= {name: uri for name in names if name not in found}
    return found


@dataclass(frozen=True, slots=True)
class OldCopies:
    """Copies that a run made so long ago that no run looks for them.

    Attributes:
        run_uri: URI of the folder of the run.
        files: that may go, each with the versions of its copy.
        kept: names of those that stay: a commit names them, or they were written while the bucket kept no versions.
    """

    run_uri: str
    files: list[File]
    kept: list[str]


def old_copies(
    namespace: str,
    named: Collection[str],
    now: datetime,
    days: float,
    options: StorageOptions | None = None,
) -> Iterator[OldCopies]:
    """Find copies that are too old to be put back.

    Args:
        namespace: URI of the storage namespace.
        named: names of the files that commits name; whether they are there or not, their copies stay.
        now: by the store's clock.
        days: runs of so many days are looked through for what is to be put back.
        options: how the store is reached; None reads the environment.
    """
    root = f"{namespace.rstrip('/')}/{METADATA_RUNS}"
    for run_id in run_ids(open_reader(root, options)):
        if descending_time(run_id) >= now - timedelta(days=days):
            continue
        uri = f"{root}/{run_id}"
        copies = open_reader(quarantine_uri(uri), options).list_level(METADATA).objects
        sizes = {info.key.removeprefix(METADATA): info.size for info in copies}
        free = [name for name in sorted(sizes) if name not in named and is_table_id(name)]
        look = partial(_version_ids, open_versions(quarantine_uri(uri), options))
        found = ordered_map(look, free, _AT_ONCE)
        files = [
            File(name, "copy", sizes[name], ids)
            for name, ids in zip(free, found, strict=True)
            if ids and NULL_VERSION not in ids
        ]
        chosen = {file.name for file in files}
        if copies:
            yield OldCopies(uri, files, [name for name in sorted(sizes) if name not in chosen])


def _version_ids(versions: VersionReader, name: str) -> tuple[str, ...]:
    return tuple(item.version_id for item in versions.versions(METADATA + name))


def purge_copies(
    copies: OldCopies, may_send: MaySend, options: StorageOptions | None = None
) -> Iterator[Taken]:
    """Delete copies for good. Knows no key outside of the folder with them.

    Args:
        copies: of one run.
        may_send: asked right before each request.
        options: how the store is reached; None reads the environment.
    """
    for taken in delete_files(quarantine_uri(copies.run_uri), copies.files, may_send, options):
        yield replace(taken, outcome=PURGED) if taken.outcome == DELETED else taken


def put_back(namespace: str, copies: dict[str, str], options: StorageOptions | None = None) -> list[str]:
    """Put files back where they are not there; gives the names of those that were.

    Args:
        namespace: URI of the storage namespace.
        copies: URI of the folder of the run that has a copy, by name.
        options: how the store is reached; None reads the environment.
    """
    back = []
    for name, uri in sorted(copies.items()):
        try:
            open_copier(quarantine_uri(uri), namespace, options).copy(METADATA + name, if_absent=True)
        except ConflictError:
            continue  # somebody wrote it meanwhile, and it is the same
        back.append(name)
    return back
