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

import re

from dredge.gc.plan import METADATA_RUNS, RUNS, STATE
from dredge.gc.referring import FOLDER as REFERRING
from dredge.gc.witness.record import FOLDER as WITNESS
from dredge.runs.cleanup import OwnFilesDeleter
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.storage import StorageOptions
from dredge.storage.keys import is_plain
from dredge.undo.deletions import CHECKED, DELETIONS
from dredge.undo.pins import PINS
from dredge.undo.purge import FOLDER as PURGES
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import is_xid

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
