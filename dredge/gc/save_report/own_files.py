"""Dredge's own files below `_lakefs/retention/gc/`: their deleter, and the folders of old runs.

    dredge/counted/…  dredge/state/versions/…  dredge/state/distrusted/…
    dredge/index/parts/…  dredge/index/manifests/…  dredge/index/checkpoints/…
    dredge/referring/<repository>/index/…
    dredge/pins/<id>.json  dredge/pins/<id>/…
    dredge/witness/….parquet  dredge/pending/….parquet
    dredge/checked/….u64  dredge/deletions/…
    dredge/metadata/pending/….parquet
    unified/<id>/…              collections, with the restores of their deletions
    dredge/purges/<id>/…        purges
    dredge/metadata/<id>/…      collections of metadata

The deleter refuses all other keys: data of the repository, lakeFS's metadata, lease, pointer to the state, and copies
of deleted objects.

The folder of an old run is removed only if its plan proves a run of this repository in this namespace. Folders of
lakeFS's own collector, of other repositories, of unknown formats and in a user's run root stay, and so do folders with
copies of deleted objects or with a younger file. The plan is removed last, so an interrupted removal is found again.
"""

from __future__ import annotations

import re
from functools import partial

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.referring import FOLDER as REFERRING
from dredge.gc.run import METADATA_RUNS, PLAN, RUNS, STATE, Run, parse_plan
from dredge.gc.witness.record import FOLDER as WITNESS
from dredge.runs.cleanup import OwnFilesDeleter
from dredge.runs.folder import read_json, run_ids
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.storage.keys import is_plain
from dredge.storage.parallel import ordered_map
from dredge.undo.deletions import CHECKED, DELETIONS
from dredge.undo.pins import PINS, Place
from dredge.undo.purge import FOLDER as PURGES
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import is_xid

ROOT = "_lakefs/retention/gc"
"""Folder of the deleter, relative to the namespace."""
OWN = STATE.removeprefix(f"{ROOT}/")
OWN_RUNS = RUNS.removeprefix(f"{ROOT}/")
SIDE_RUNS = tuple(place.removeprefix(f"{ROOT}/") for place in (f"{STATE}/{PURGES}", METADATA_RUNS))
"""Folders of purges and collections of metadata."""
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
    """Open the deleter of Dredge's own files of a repository; keys are relative to `ROOT`."""
    return OwnFilesDeleter(f"{namespace.rstrip('/')}/{ROOT}", is_own_file, options)


def is_own_file(key: str) -> bool:
    """Whether a key relative to `ROOT` is a file written only by Dredge and dispensable for later runs."""
    if not is_plain(key):
        return False
    run = _OF_RUN.fullmatch(key)
    if run is None or _BOOKKEEPING.fullmatch(key):
        return _BOOKKEEPING.fullmatch(key) is not None
    return is_xid(run[1]) and not run["file"].startswith(f"{QUARANTINE_FOLDER}/")


def side_places(run: Run, reader: ObjectReader) -> list[Place]:
    """Return the places of purges and collections of metadata, without their newest run; the reader is on `ROOT`."""

    def place(name: str) -> Place:
        # The next collection of metadata may delete files noted by the newest one.
        newest = run_ids(open_reader(f"{reader.uri}/{name}", run.options))[:1]
        return Place(name, set(newest), partial(_is_side_run_of, run))

    return list(ordered_map(place, SIDE_RUNS, len(SIDE_RUNS)))


def is_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """Whether the plan in a folder proves a run of this repository in this namespace."""
    try:
        plan = parse_plan(read_json(runs, f"{run_id}/{PLAN}"))
    except (ConfigError, FormatError, NotFoundError):
        return False  # of another collector, or of another version
    return (
        plan.run_id == run_id
        and plan.repository == run.plan.repository
        and canonical_namespace(plan.namespace) == canonical_namespace(run.plan.namespace)
        and canonical_namespace(plan.run_uri) == canonical_namespace(f"{runs.uri}/{run_id}")
    )


def _is_side_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    try:
        plan = read_json(runs, f"{run_id}/{PLAN}")
        return (
            plan["run_id"] == run_id
            and plan["repository"] == run.plan.repository
            and canonical_namespace(plan["namespace"]) == canonical_namespace(run.plan.namespace)
        )
    except (ConfigError, FormatError, NotFoundError, AttributeError, KeyError, TypeError):
        return False
