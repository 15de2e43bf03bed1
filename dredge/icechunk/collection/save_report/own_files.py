"""The deleter of Dredge's own files in an Icechunk repository: what runs wrote for themselves below `_dredge/`.

    counted/…  state/versions/…  state/distrusted/…  index/parts/…  index/heads/…  pending/….parquet
    pins/<id>.json  pins/<id>/…  expirations/<id>/…  purges/<id>/…  runs/<run id>/…

It knows no other names. The repository's own objects, lease, pointers to the state and the pending list are none
of these, whoever asks.
"""

from __future__ import annotations

import re

from dredge.icechunk.collection.index import HEADS, PARTS
from dredge.icechunk.collection.mark import COUNTED
from dredge.icechunk.maintenance import EXPIRATIONS, RUNS, STATE
from dredge.runs.cleanup import OwnFilesDeleter
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.versions import DISTRUSTED, VERSIONS
from dredge.storage import StorageOptions
from dredge.storage.keys import is_plain
from dredge.undo.pins import PINS
from dredge.undo.purge import FOLDER as PURGES
from dredge.xid import is_xid

OWN_RUNS = RUNS.removeprefix(f"{STATE}/")
_BOOKKEEPING = re.compile(
    rf"(?:{'|'.join((COUNTED, VERSIONS, DISTRUSTED, PARTS, HEADS))})/[^/]+|{PENDING}/[^/]+\.parquet"
    rf"|{PINS}/[^/]+(?:/[^/]+)?"
)
_OF_ID = re.compile(rf"(?:{OWN_RUNS}|{EXPIRATIONS}|{PURGES})/([^/]+)/.+", re.DOTALL)


def own_files_deleter(uri: str, options: StorageOptions | None = None) -> OwnFilesDeleter:
    """Open the deleter of Dredge's own files of one repository; keys are relative to `_dredge`.

    Args:
        uri: the repository.
        options: how the store is reached; None reads the environment.
    """
    return OwnFilesDeleter(f"{uri.rstrip('/')}/{STATE}", is_own_file, options)


def is_own_file(key: str) -> bool:
    """Whether a key below `_dredge` is one that only Dredge writes, and that a later run can do without.

    Args:
        key: relative to `_dredge`.
    """
    if not is_plain(key):
        return False
    of_id = _OF_ID.fullmatch(key)
    return is_xid(of_id[1]) if of_id is not None else _BOOKKEEPING.fullmatch(key) is not None
