"""Folders of old runs, and ended pins, for the clean-up at the end of a complete run.

A run removes a folder only if the folder's plan proves that it belongs to this repository. Folders with copies of
deleted objects stay until a purge, and so do folders with a new file. The plan is removed last, so the next run finds
the rest of an interrupted removal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.runs.cleanup import ListedFiles
from dredge.runs.folder import run_ids
from dredge.runs.run import PlannedRun
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map
from dredge.undo.pins import PINS, Pin
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import descending_time

_PLAN = "plan.json"
_FOLDERS_MAX = 200
"""Old folders of a place that a run checks; the next runs check the rest."""

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with folders of runs.

    Attributes:
        kept: ids of needed runs of any age.
        is_ours: whether the folder of an id belongs to the repository; takes a reader on the place.
    """

    name: str
    kept: Set[str]
    is_ours: Callable[[ObjectReader, str], bool]


@dataclass(slots=True)
class OldFolders:
    """Removable folders.

    Attributes:
        folders: files by folder, relative to the folder of own files; the plan last.
    """

    folders: dict[str, list[str]] = field(default_factory=dict)
    size_bytes: int = 0
    left: int = 0


def find_old_folders(
    run: PlannedRun[Any], reader: ObjectReader, place: Place, oldest: datetime
) -> OldFolders:
    """Find removable folders of runs (read-only)."""
    runs = open_reader(f"{reader.uri}/{place.name}", run.options)
    old = [
        run_id for run_id in run_ids(runs) if run_id not in place.kept and descending_time(run_id) < oldest
    ]
    # A random choice: folders that stay for ever must not keep others from a check.
    chosen = random.Random(run.plan.run_id).sample(old, min(len(old), _FOLDERS_MAX))
    found = OldFolders(left=len(old) - len(chosen))

    def files_of(run_id: str) -> ListedFiles | None:
        # Only a purge removes copies, and only the ledger has their names.
        if not place.is_ours(runs, run_id) or _has_copies(runs, run_id):
            return None
        files = ListedFiles.of(reader, f"{place.name}/{run_id}/", oldest)
        return files if len(files.aged) == len(files.sizes) else None  # a file is new: the run has continued

    listed = ordered_map(files_of, chosen, _AT_ONCE)
    for run_id, files in zip(chosen, listed, strict=True):
        if files is None:
            continue
        plan = f"{place.name}/{run_id}/{_PLAN}"
        last = [plan] if plan in files.sizes else []
        found.folders[f"{place.name}/{run_id}"] = [*(key for key in files.below("") if key != plan), *last]
        found.size_bytes += sum(files.sizes.values())
    return found


def _has_copies(runs: ObjectReader, run_id: str) -> bool:
    return next(iter(runs.list(f"{run_id}/{QUARANTINE_FOLDER}/")), None) is not None


def ended_pins(
    pins: Iterable[Pin], files: ListedFiles, folder: str, is_over: Callable[[Pin], bool]
) -> Iterator[str]:
    """Old files of ended pins, each record before its hashes; and hashes without a record."""
    known = {pin.pin_id: pin for pin in pins}
    for key in files.old(f"{folder}{PINS}/"):
        name, _, is_hashes = key.removeprefix(f"{folder}{PINS}/").partition("/")
        pin = known.get(name.removesuffix(".json"))
        if bool(is_hashes) if pin is None else is_over(pin):
            yield key
