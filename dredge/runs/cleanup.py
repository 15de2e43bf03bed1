"""Removal of a collector's own files: only names declared as its own by the collector, and only under its lease.

A version of the state names only files of the version before it, and new files. So a file that no recent version names
is never named again. A run in progress builds on a version that was the newest within the last week, because its mark
expires within hours.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import batched
from typing import Any

import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.runs.payload import PartInfo, StepOutput
from dredge.runs.run import PlannedRun, StepRecord
from dredge.runs.versions import DISTRUSTED, VERSIONS, State, VersionStore
from dredge.storage import DeleteOutcome, ObjectReader, StorageOptions, open_deleter

log = logging.getLogger("dredge")


class ListedFiles(Struct, frozen=True):
    """Sizes and ages of listed files."""

    sizes: dict[str, int]  # of all files, by key
    aged: frozenset[str]  # files last modified before an instant

    @classmethod
    def of(cls, reader: ObjectReader, prefix: str, before: datetime) -> ListedFiles:
        """List a prefix. `before`: files last modified strictly before it are aged."""
        sizes: dict[str, int] = {}
        aged: set[str] = set()
        for batch in reader.list(prefix):
            keys = batch["key"].to_pylist()
            sizes.update(zip(keys, batch["size"].to_pylist(), strict=True))
            is_old = pc.less(batch["last_modified"], before).to_pylist()
            aged.update(key for key, old in zip(keys, is_old, strict=True) if old)
        return cls(sizes, frozenset(aged))

    @classmethod
    def unite(cls, listings: Iterable[ListedFiles]) -> ListedFiles:
        """Unite the listings of several prefixes."""
        sizes: dict[str, int] = {}
        aged: set[str] = set()
        for listed in listings:
            sizes |= listed.sizes
            aged |= listed.aged
        return cls(sizes, frozenset(aged))

    def below(self, prefix: str) -> list[str]:
        """Return all files below a prefix, sorted."""
        return sorted(key for key in self.sizes if key.startswith(prefix))

    def old(self, prefix: str) -> list[str]:
        """Return the aged files below a prefix, sorted."""
        return [key for key in self.below(prefix) if key in self.aged]


def read_recent_versions[S: State](store: VersionStore[S], files: ListedFiles, folder: str) -> dict[str, S]:
    """Read the versions of a state that a run in progress may build on: all young ones, and the newest aged one.

    Args:
        files: listed before anything is read, including the state's folder.
        folder: of the state in that listing, with its slash; "" if the listing is of that folder.

    Returns:
        States by file name, including the newest.

    Raises:
        FormatError: the newest version cannot be read. Other damaged versions are skipped: no run can build on them.
    """
    newest = store.newest()
    names = [key.removeprefix(folder) for key in files.below(f"{folder}{VERSIONS}/")]
    young = [name for name in names if f"{folder}{name}" not in files.aged]
    # Run ids sort newest first.
    wanted = dict.fromkeys([*young, *(name for name in names if name not in young)][: len(young) + 1])
    found = {} if newest is None else {newest.name: _load(store, newest.name, newest.sha256)}
    for name in wanted:
        if name in found:
            continue
        try:
            found[name] = _load(store, name, None)
        except FormatError as error:
            log.info("%s", error)
    return found


def _load[S: State](store: VersionStore[S], name: str, sha256: str | None) -> S:
    try:
        return store.read(name, sha256)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the version {name} of the state cannot be read: {error}") from None


_KEYS = 1000


class Superseded(Struct):
    """Dredge's own files that no run needs any more. Keys are relative to the deleter's folder."""

    bookkeeping: list[str] = field(default_factory=list)  # files of state, counts, index and lists
    # files by folder of an old run, the plan last
    folders: dict[str, list[str]] = field(default_factory=dict)
    size_bytes: int = 0
    folders_left: int = 0  # number of old folders for the next runs

    @property
    def keys(self) -> list[str]:
        """All of them in the order of removal."""
        return [*self.bookkeeping, *(key for keys in self.folders.values() for key in keys)]


class OwnFilesDeleter:
    """Deletes a collector's own files below one folder. `is_own`: whether only the collector writes a key (relative to
    the folder), and no later run needs it."""

    def __init__(
        self, uri: str, is_own: Callable[[str], bool], options: StorageOptions | None = None
    ) -> None:
        self._uri = uri
        self._is_own = is_own
        self._deleter = open_deleter(uri, options)

    def delete(self, keys: Sequence[str]) -> list[DeleteOutcome]:
        """Delete files by key, relative to the folder; returns the outcomes in the same order. Raises RefusedError
        before any deletion if a key is not an own file."""
        for key in keys:
            if not self._is_own(key):
                raise RefusedError(
                    f"{key!r} is not one of Dredge's own files below {self._uri}. Nothing was deleted. Please report"
                    " this."
                )
        return self._deleter.delete(keys)


class OwnFilesOutput(StepOutput):
    """The removed own files. The input is the last step of the run; a dry run ends with an earlier step."""

    STEP = "own_files"


def remove_own_files(
    run: PlannedRun[Any], record: StepRecord, found: Superseded, deleter: OwnFilesDeleter
) -> None:
    """Remove superseded files of a complete run; only count them in a dry run."""
    record.counts.update(
        own_files=len(found.keys),
        own_bytes=found.size_bytes,
        own_run_folders=len(found.folders),
        folders_left=found.folders_left,
    )
    if run.plan.dry_run:
        record.status = "dry_run"
        return
    outcomes: Counter[str] = Counter()
    for keys in batched(found.keys, _KEYS):
        run.lease.check(run.plan.lease, run.store_now())
        outcomes.update(outcome.outcome for outcome in deleter.delete(keys))
    removed = record.counts["own_files_removed"] = outcomes["deleted"] + outcomes["missing"]
    if removed < len(found.keys):
        record.warn(
            f"{len(found.keys) - removed:,} of {len(found.keys):,} own files that no run needs any more could not be"
            " removed; a later run tries again"
        )


def find_superseded_versions(
    files: ListedFiles, folder: str, counts: str, versions: Collection[str], counted: Iterable[PartInfo]
) -> list[str]:
    """Return old versions of the state, notes about them, and layers of counts.

    Args:
        folder: of the state in the listing, with its slash, or "".
        counts: folder of the counts.
        versions: names of the versions that stay.
        counted: layers that stay.
    """
    # A note on an unusable version is removed with the version.
    kept = {*versions, *(f"{DISTRUSTED}/{name.rpartition('/')[2]}" for name in versions)}
    kept |= {part.name for part in counted}
    places = (VERSIONS, DISTRUSTED, counts)
    found = [key for place in places for key in files.old(f"{folder}{place}/")]
    return [key for key in found if key.removeprefix(folder) not in kept]
