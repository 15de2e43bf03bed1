"""Folders of old runs, which the end of a complete run removes.

    unified/<id>/           collections, with the restores of what they deleted
    dredge/purges/<id>/     purges: nothing reads what they did
    dredge/metadata/<id>/   runs about metadata; the newest stays: the next one may let go what it noted

Folders are removed only where a plan proves that they are runs of this repository in this namespace; those of
lakeFS's own collector, of other repositories, of unknown formats, and in a run root that a user named stay, and so do
those with copies of what was deleted, until they are purged, and those in which something is younger than asked for.
The plan is removed last, so that what an interrupted removal leaves is found again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.plan import PLAN, parse_plan
from dredge.gc.run import Run
from dredge.gc.save_report.own_files import SIDE_RUNS
from dredge.runs.cleanup import ListedFiles
from dredge.runs.folder import read_json, run_ids
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import descending_time

_FOLDERS_MAX = 200
"""Old folders of a place that one run looks into; what is left, the next runs remove."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where folders of runs lie.

    Attributes:
        name: relative to `own_files.ROOT`.
        kept: ids of runs that are needed, however old.
        is_ours: whether the folder of an id is proved to be of a run of the repository; takes a reader on the place.
    """

    name: str
    kept: Set[str]
    is_ours: Callable[[ObjectReader, str], bool]


@dataclass(slots=True)
class OldFolders:
    """Folders that may be removed.

    Attributes:
        folders: their files, relative to `own_files.ROOT`, by folder; the plan last.
        size_bytes: of all of them together.
        left: old folders that were not looked into this time.
    """

    folders: dict[str, list[str]] = field(default_factory=dict)
    size_bytes: int = 0
    left: int = 0


def side_places(run: Run, reader: ObjectReader) -> list[Place]:
    """Where runs beside collections lie. Of each kind the newest stays.

    Args:
        run: at whose end files are removed.
        reader: on `own_files.ROOT`.
    """

    def place(name: str) -> Place:
        newest = run_ids(open_reader(f"{reader.uri}/{name}", run.options))[:1]
        return Place(name, set(newest), partial(_is_side_run_of, run))

    return list(ordered_map(place, SIDE_RUNS, len(SIDE_RUNS)))


def find_old_folders(run: Run, reader: ObjectReader, place: Place, oldest: datetime) -> OldFolders:
    """Find folders of old runs that nobody needs; removes nothing.

    Args:
        run: at whose end they are removed.
        reader: on `own_files.ROOT`.
        place: where they lie.
        oldest: everything in them is older, and so is their id.
    """
    runs = open_reader(f"{reader.uri}/{place.name}", run.options)
    old = [
        run_id for run_id in run_ids(runs) if run_id not in place.kept and descending_time(run_id) < oldest
    ]
    # Chosen at random, so that folders that stay for ever do not keep others from being looked into.
    chosen = random.Random(run.plan.run_id).sample(old, min(len(old), _FOLDERS_MAX))
    found = OldFolders(left=len(old) - len(chosen))

    def files_of(run_id: str) -> ListedFiles | None:
        if not place.is_ours(runs, run_id) or _has_copies(runs, run_id):
            return None
        files = ListedFiles.of(reader, f"{place.name}/{run_id}/", oldest)
        return files if len(files.aged) == len(files.sizes) else None  # somebody went on with it

    listed = ordered_map(files_of, chosen, run.plan.config.tuning.threads)
    for run_id, files in zip(chosen, listed, strict=True):
        if files is None:
            continue
        plan = f"{place.name}/{run_id}/{PLAN}"
        found.folders[f"{place.name}/{run_id}"] = [*(key for key in files.below("") if key != plan), plan]
        found.size_bytes += sum(files.sizes.values())
    return found


def _has_copies(runs: ObjectReader, run_id: str) -> bool:
    """Whether copies of what a run deleted are left: only a purge lets them go, and only the ledger names them."""
    return next(iter(runs.list(f"{run_id}/{QUARANTINE_FOLDER}/")), None) is not None


def is_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """Whether a folder is proved by its plan to be of a run of this repository, in this namespace."""
    try:
        plan = parse_plan(read_json(runs, f"{run_id}/{PLAN}"))
    except (ConfigError, FormatError, NotFoundError):
        return False  # another collector's, or of another version
    return (
        plan.run_id == run_id
        and plan.repository == run.plan.repository
        and canonical_namespace(plan.namespace) == canonical_namespace(run.plan.namespace)
        and canonical_namespace(plan.run_uri) == canonical_namespace(f"{runs.uri}/{run_id}")
    )


def _is_side_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """The same of a run beside collections."""
    try:
        plan = read_json(runs, f"{run_id}/{PLAN}")
        return (
            plan["run_id"] == run_id
            and plan["repository"] == run.plan.repository
            and canonical_namespace(plan["namespace"]) == canonical_namespace(run.plan.namespace)
        )
    except (ConfigError, FormatError, NotFoundError, AttributeError, KeyError, TypeError):
        return False
