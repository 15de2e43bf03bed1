"""Listing a folder recursively: exact names, byte order of keys, Arrow batches, no link followed.

Faster than a generic client: names come from `scandir` on a directory descriptor, are sorted as plain strings
with a "/" behind each directory (which gives the order of whole keys), and each file costs one `stat`
relative to the descriptor. Memory: the names of one directory on each level of the path, and one batch.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator

import pyarrow as pa

from dredge.storage.keys import is_plain, is_text
from dredge.storage.local.folder import RESERVED, Folder, etag_of, info_of, is_absent, os_error
from dredge.storage.model import LISTING_SCHEMA, Level, ObjectInfo, SkippedName

BATCH_ROWS = 8192

log = logging.getLogger(__name__)


def log_skipped(name: str) -> None:
    """Where skipped names go when the caller takes no interest."""
    log.warning("listing: %s has no key and is left alone", name)


class _Columns:
    """The rows of the next batch."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.sizes: list[int] = []
        self.times: list[int] = []
        self.etags: list[str] = []

    def take(self) -> pa.RecordBatch:
        arrays = [
            pa.array(self.keys, pa.string()),
            pa.array(self.sizes, pa.int64()),
            pa.array(self.times, LISTING_SCHEMA.field("last_modified").type),
            pa.array(self.etags, pa.string()),
        ]
        self.__init__()  # type: ignore[misc]
        return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA)


def _sorted_names(fd: int, base: str, on_skipped: SkippedName) -> list[str]:
    """Names in a directory, "/" behind directories, in the order of the keys they begin."""
    with os.scandir(fd) as entries:
        names = [e.name + "/" if e.is_dir(follow_symlinks=False) else e.name for e in entries]
    if any(not name.isascii() or name.startswith(RESERVED) for name in names):
        kept = []
        for name in names:
            if not is_text(name):
                on_skipped(repr(os.fsencode(base + name)) + " (name is not UTF-8)")
            elif not name.startswith(RESERVED):
                kept.append(name)
        names = kept
    names.sort()
    return names


def list_folder(
    folder: Folder, prefix: str, start_after: str, stop_before: str, on_skipped: SkippedName | None
) -> Iterator[pa.RecordBatch]:
    """List the plain files below a folder; see `ObjectReader.list`."""
    skipped = on_skipped or log_skipped
    columns = _Columns()

    def outside(key: str) -> bool:
        return bool(start_after) and (
            not start_after.startswith(key) if key[-1] == "/" and key <= start_after else key <= start_after
        )

    def walk(fd: int, base: str, starts: str) -> Iterator[pa.RecordBatch]:
        """Yields full batches; returns early once `stop_before` is reached (all later keys are greater)."""
        for name in _sorted_names(fd, base, skipped):
            if starts and not name.startswith(starts):
                continue
            key = base + name
            if stop_before and key >= stop_before:
                return
            if outside(key):
                continue
            if name[-1] == "/":
                yield from descend(fd, name[:-1], key)
                continue
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # deleted since we read the directory
            if not stat.S_ISREG(found.st_mode):
                skipped(f"{key!r} (not a plain file)")
                continue
            columns.keys.append(key)
            columns.sizes.append(found.st_size)
            columns.times.append(found.st_mtime_ns // 1000)
            columns.etags.append(etag_of(found))
            if len(columns.keys) >= BATCH_ROWS:
                yield columns.take()

    def descend(parent: int, name: str, base: str) -> Iterator[pa.RecordBatch]:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except OSError as error:
            if is_absent(error):
                return  # gone, or no directory any more
            raise
        try:
            yield from walk(fd, base, "")
        finally:
            os.close(fd)

    try:
        opened = _open_prefix(folder, prefix)
        if opened is not None:
            fd, base, starts = opened
            try:
                yield from walk(fd, base, starts)
            finally:
                os.close(fd)
            if columns.keys:
                yield columns.take()
    except OSError as error:
        raise os_error(error, f"listing {prefix!r} below {folder.root}") from error


def _open_prefix(folder: Folder, prefix: str) -> tuple[int, str, str] | None:
    """Open the deepest folder a prefix names: its descriptor, key prefix, and how names in it must start."""
    head, slash, starts = prefix.rpartition("/")
    if slash and (not is_plain(head) or not head):
        return None  # no file here can have such a key
    if "\0" in prefix or not is_text(prefix):
        return None
    try:
        fd = folder.open_directory(head.split("/") if head else [])
    except OSError as error:
        if is_absent(error):
            return None
        raise
    return fd, head + slash, starts


def list_folder_level(folder: Folder, prefix: str) -> Level:
    """List one level; see `ObjectReader.list_level`. A folder without any file in it is still named."""
    level = Level([], [])
    try:
        opened = _open_prefix(folder, prefix)
        if opened is None:
            return level
        fd, base, starts = opened
        try:
            for name in _sorted_names(fd, base, log_skipped):
                if not name.startswith(starts):
                    continue
                if name[-1] == "/":
                    level.folders.append(base + name)
                    continue
                found = _plain(fd, base + name, name)
                if found is not None:
                    level.objects.append(found)
        finally:
            os.close(fd)
    except OSError as error:
        raise os_error(error, f"listing {prefix!r} below {folder.root}") from error
    return level


def _plain(fd: int, key: str, name: str) -> ObjectInfo | None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode):
        return info_of(key, found)
    log_skipped(f"{key!r} (not a plain file)")
    return None
