"""Listing a folder recursively: exact names, byte order of keys, Arrow batches, no link followed.

Names are sorted with a "/" behind each folder, which gives the order of whole keys. Memory: the names of one folder on
each level of the path, and one batch.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator

import pyarrow as pa

from dredge.storage.keys import is_text
from dredge.storage.local.folder import RESERVED, Folder, info_of, is_addressable, os_error
from dredge.storage.model import LISTING_SCHEMA, Level, ObjectInfo, SkippedName

BATCH_ROWS = 8192

log = logging.getLogger(__name__)


def _log_skipped(name: str) -> None:
    log.warning("listing: %s has no key and is left alone", name)


def list_folder(
    folder: Folder,
    prefix: str,
    start_after: str,
    stop_before: str,
    on_skipped: SkippedName | None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """List the plain files below a folder; see `ObjectReader.list`."""
    skipped = on_skipped or _log_skipped

    def walk(base: str) -> Iterator[ObjectInfo]:
        for key in _keys(folder, base, skipped):
            if not key.startswith(prefix):
                continue
            if stop_before and key >= stop_before:
                return
            if key[-1] == "/":
                if key > start_after or start_after.startswith(key):
                    yield from walk(key)
            elif key > start_after and (found := _plain(folder, key, skipped)):
                yield found

    rows: list[ObjectInfo] = []
    try:
        for found in walk(prefix.rpartition("/")[0]):
            rows.append(found)
            if len(rows) >= batch_rows:
                yield _batch(rows)
                rows = []
    except OSError as error:
        raise os_error(error, f"listing {prefix!r} below {folder.root}") from error
    if rows:
        yield _batch(rows)


def list_folder_level(folder: Folder, prefix: str) -> Level:
    """List one level; see `ObjectReader.list_level`. A folder without any file in it is still named."""
    level = Level([], [])
    try:
        for key in _keys(folder, prefix.rpartition("/")[0], _log_skipped):
            if not key.startswith(prefix):
                continue
            if key[-1] == "/":
                level.folders.append(key)
            elif found := _plain(folder, key, _log_skipped):
                level.objects.append(found)
    except OSError as error:
        raise os_error(error, f"listing {prefix!r} below {folder.root}") from error
    return level


def _keys(folder: Folder, base: str, skipped: SkippedName) -> list[str]:
    """The keys in a folder, "/" behind those of folders, in the order of the keys they begin."""
    base = base.removesuffix("/")
    if base and not is_addressable(base):
        return []
    try:
        with os.scandir(folder.path(base.split("/") if base else [])) as entries:
            names = [entry.name + "/" * entry.is_dir(follow_symlinks=False) for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []  # also: removed since the folder above was read
    keys = []
    for name in names:
        if not is_text(name):
            skipped(repr(os.fsencode(f"{base}/{name}")) + " (name is not UTF-8)")
        elif not name.startswith(RESERVED):
            keys.append(f"{base}/{name}" if base else name)
    return sorted(keys)


def _plain(folder: Folder, key: str, skipped: SkippedName) -> ObjectInfo | None:
    try:
        found = os.lstat(f"{folder.root}/{key}")
    except FileNotFoundError:
        return None  # deleted since the folder was read
    if stat.S_ISREG(found.st_mode):
        return info_of(key, found)
    skipped(f"{key!r} (not a plain file)")
    return None


def _batch(rows: list[ObjectInfo]) -> pa.RecordBatch:
    columns = zip(*((row.key, row.size, row.last_modified, row.etag) for row in rows), strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, LISTING_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA)
