"""Reads range and metarange files.

Their names are hashes of their contents, so a process that does several steps reads each file once: small files stay
in the cache of the namespace's URI (`PlannedRun.going_on`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from dredge.errors import DredgeError
from dredge.gc.namespaces import METADATA
from dredge.runs.parts import get_part_cache
from dredge.storage import ObjectReader
from dredge.storage.parallel import get_ahead

log = logging.getLogger("dredge")

_AT_ONCE = 16


def get_files(reader: ObjectReader, ids: Sequence[str], lenient: bool = False) -> Iterator[tuple[str, bytes]]:
    """Read files; yields keys and contents in the order of the ids. `lenient` leaves unreadable files out."""
    kept = get_part_cache(reader.uri)
    keys = [METADATA + item for item in ids]
    found = {} if kept is None else {key: data for key in keys if (data := kept.get(key)) is not None}
    unread = [key for key in keys if key not in found]

    def read(key: str) -> bytes:
        try:
            return reader.get(key)
        except DredgeError as error:
            log.info("%s cannot be read: %s", key, error)
            return b""

    files = get_ahead(read, unread, _AT_ONCE) if lenient else reader.get_many(unread)
    for key in keys:
        if (data := found.pop(key, None)) is None:
            _, data = next(files)
            if kept is not None and data:
                kept.put(key, data)
        if data or not lenient:
            yield key, data


def get_file(reader: ObjectReader, file_id: str) -> bytes:
    """Read a file. Raises NotFoundError."""
    return next(get_files(reader, [file_id]))[1]
