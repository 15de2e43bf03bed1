"""The deleter of Dredge's own files in an Icechunk repository: what runs wrote for themselves below `_dredge/`.

    counted/…  state/versions/…  state/distrusted/…  index/parts/…  index/heads/…  pending/….parquet
    pins/<id>.json  pins/<id>/…  expirations/<id>/…  purges/<id>/…  runs/<run id>/…

It knows no other names. The repository's own objects, lease, pointers to the state and the pending list are none
of these, whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dredge.errors import RefusedError
from dredge.icechunk.collection.index import HEADS, PARTS
from dredge.icechunk.collection.mark import COUNTED
from dredge.icechunk.maintenance import EXPIRATIONS, RUNS, STATE
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.versions import DISTRUSTED, VERSIONS
from dredge.storage import DeleteOutcome, StorageOptions, open_deleter
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


class OwnFilesDeleter:
    """Deletes Dredge's own files of one repository, and nothing else.

    Args:
        uri: the repository.
        options: how the store is reached; None reads the environment.
    """

    def __init__(self, uri: str, options: StorageOptions | None = None) -> None:
        self._deleter = open_deleter(f"{uri.rstrip('/')}/{STATE}", options)

    def delete(self, keys: Sequence[str]) -> list[DeleteOutcome]:
        """Delete files.

        Args:
            keys: relative to `_dredge`.

        Returns:
            One outcome a key, in the same order.

        Raises:
            RefusedError: one of them is no such file. None was deleted.
        """
        for key in keys:
            if not is_own_file(key):
                raise RefusedError(
                    f"{key!r} is not one of Dredge's own files below {STATE}. Nothing was deleted. Please report this."
                )
        return self._deleter.delete(keys)


def is_own_file(key: str) -> bool:
    """Whether a key below `_dredge` is one that only Dredge writes, and that a later run can do without.

    Args:
        key: relative to `_dredge`.
    """
    if not is_plain(key):
        return False
    of_id = _OF_ID.fullmatch(key)
    return is_xid(of_id[1]) if of_id is not None else _BOOKKEEPING.fullmatch(key) is not None
