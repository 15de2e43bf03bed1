"""The deleter of Dredge's own files: what runs wrote for themselves below `_lakefs/retention/gc/`.

    dredge/counted/…  dredge/state/versions/…  dredge/state/distrusted/…
    dredge/index/parts/…  dredge/index/manifests/…  dredge/index/checkpoints/…
    dredge/referring/<repository>/index/…
    dredge/pins/<id>.json  dredge/pins/<id>/…
    dredge/witness/….parquet  dredge/pending/….parquet
    dredge/checked/….u64  dredge/deletions/…
    dredge/purges/<id>/…  dredge/metadata/<id>/…  dredge/metadata/pending/….parquet   but no copies of what was deleted
    unified/<run id>/…

It knows no other names. The data of the repository, lakeFS's metadata, lease and pointer to the state are none of
these, whoever asks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.referring.repositories import FOLDER as REFERRING
from dredge.gc.run import METADATA_RUNS, PLAN, RUNS, STATE, Run, parse_plan
from dredge.gc.witness.record import FOLDER as WITNESS
from dredge.runs.folder import read_json
from dredge.runs.lifetimes import ListedFiles, run_ids
from dredge.runs.own_files import OwnFilesDeleter
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.storage.keys import is_plain
from dredge.storage.parallel import ordered_map
from dredge.undo.deletions import CHECKED, DELETIONS
from dredge.undo.pins import PINS
from dredge.undo.purge import FOLDER as PURGES
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import descending_time, is_xid

ROOT = "_lakefs/retention/gc"
"""Where the deleter is opened, relative to the namespace."""
OWN = STATE.removeprefix(f"{ROOT}/")
OWN_RUNS = RUNS.removeprefix(f"{ROOT}/")
SIDE_RUNS = tuple(place.removeprefix(f"{ROOT}/") for place in (f"{STATE}/{PURGES}", METADATA_RUNS))
"""Folders of runs beside collections."""
FILES_PENDING = f"{METADATA_RUNS.removeprefix(f'{STATE}/')}/{PENDING}"
"""Pending lists of range and metarange files, relative to `OWN`."""
_BOOKKEEPING = re.compile(
    rf"{OWN}/(?:counted|state/versions|state/distrusted|index/parts|index/manifests|index/checkpoints)/[^/]+"
    rf"|{OWN}/{REFERRING}/[^/]+/index/(?:parts|manifests|checkpoints)/[^/]+"
    rf"|{OWN}/{PINS}/[^/]+(?:/[^/]+)?"
    rf"|{OWN}/(?:{WITNESS}|{PENDING}|{FILES_PENDING})/[^/]+\.parquet"
    rf"|{OWN}/{CHECKED}/[^/]+\.u64"
    rf"|{OWN}/{DELETIONS}/[^/]+\.(?:u64|json)"
)
_OF_RUN = re.compile(
    rf"(?:{OWN_RUNS}|(?:{'|'.join(SIDE_RUNS)}))/([^/]+)/(?P<file>.+)",
    re.DOTALL,
)


def own_files_deleter(namespace: str, options: StorageOptions | None = None) -> OwnFilesDeleter:
    """Open the deleter of Dredge's own files of one repository; keys are relative to `ROOT`.

    Args:
        namespace: URI of the repository's storage namespace.
        options: how the store is reached; None reads the environment.
    """
    return OwnFilesDeleter(f"{namespace.rstrip('/')}/{ROOT}", is_own_file, options)


def is_own_file(key: str) -> bool:
    """Whether a key below `ROOT` is one that only Dredge writes, and that a later run can do without.

    Args:
        key: relative to `ROOT`.
    """
    if not is_plain(key):
        return False
    run = _OF_RUN.fullmatch(key)
    if run is None or _BOOKKEEPING.fullmatch(key):
        return _BOOKKEEPING.fullmatch(key) is not None
    return is_xid(run[1]) and not run["file"].startswith(f"{QUARANTINE_FOLDER}/")


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
