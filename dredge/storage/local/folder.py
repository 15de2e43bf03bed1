"""Walking below one folder without ever leaving it.

Every path is walked component by component with directory descriptors and O_NOFOLLOW. A symbolic link below
the root, also one put there this very moment, is therefore no way out: neither for a read nor for a delete.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from dredge.durable import sync
from dredge.errors import ConfigError, DredgeError, NotFoundError, UnavailableError
from dredge.storage.keys import is_plain, is_text
from dredge.storage.model import ObjectInfo

RESERVED = ".dredge-tmp~"
"""File names that begin so are our unfinished writes: never listed, never addressed."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_absent(error: OSError) -> bool:
    """Whether the error says that there is no object of this name (a folder or link may be in its place)."""
    return error.errno in _ABSENT


def is_addressable(key: str) -> bool:
    """Whether exactly this key can be a file below the folder."""
    if not key or "\0" in key or not is_plain(key) or not is_text(key):
        return False
    return RESERVED not in key or not any(part.startswith(RESERVED) for part in key.split("/"))


def os_error(error: OSError, doing: str) -> DredgeError:
    """Translate an operating system error into one of our families."""
    words = f"{doing}: {error.strerror or error}"
    if is_absent(error):
        return NotFoundError(words)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return ConfigError(f"{words}. Give this user the right, or choose another folder.")
    return UnavailableError(words)


def etag_of(info: os.stat_result) -> str:
    """A cheap tag that changes with every write through this driver; says nothing about the content."""
    return f"{info.st_ino:x}-{info.st_mtime_ns:x}-{info.st_size:x}"


def info_of(key: str, info: os.stat_result) -> ObjectInfo:
    """What `stat` found, in our words."""
    modified = _EPOCH + timedelta(microseconds=info.st_mtime_ns // 1000)
    return ObjectInfo(key, info.st_size, modified, etag_of(info))


def _make_root(path: str) -> None:
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    _make_root(above)
    with suppress(FileExistsError):
        os.mkdir(path)
    fd = os.open(above, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        sync(fd)
    finally:
        os.close(fd)


class Folder:
    """The root of a local store."""

    def __init__(self, root: str) -> None:
        self.root = root

    def open_directory(self, parts: list[str], create: bool = False) -> int:
        """Open the directory `parts` below the root; the caller closes it.

        Args:
            parts: names, root first.
            create: make what is missing, the root included.

        Raises:
            OSError: as the system says; a symbolic link in the way counts as not a directory.
        """
        if create:
            _make_root(self.root)
        # The root itself may be a link: the user named it.
        fd = os.open(self.root, _DIRECTORY & ~os.O_NOFOLLOW)
        try:
            for part in parts:
                try:
                    below = os.open(part, _DIRECTORY, dir_fd=fd)
                except FileNotFoundError:
                    if not create:
                        raise
                    with suppress(FileExistsError):  # someone else was first
                        os.mkdir(part, dir_fd=fd)
                    sync(fd)
                    below = os.open(part, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = below
        except BaseException:
            os.close(fd)
            raise
        return fd

    @contextmanager
    def directory(self, parts: list[str], create: bool = False) -> Iterator[int]:
        """`open_directory` as a context manager."""
        fd = self.open_directory(parts, create)
        try:
            yield fd
        finally:
            os.close(fd)

    def stat(self, key: str) -> os.stat_result:
        """Stat one object without following links; raises OSError (ENOENT when it is no plain file)."""
        *parents, name = key.split("/")
        with self.directory(parents) as fd:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a plain file", key)
        return found

    def open_file(self, key: str) -> int:
        """Open one object for reading; raises OSError (ENOENT when it is no plain file)."""
        *parents, name = key.split("/")
        with self.directory(parents) as fd:
            # O_NONBLOCK: opening a named pipe must not wait for a writer.
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise FileNotFoundError(errno.ENOENT, "not a plain file", key)
        return opened

    def prune(self, parts: list[str]) -> None:
        """Remove the directory `parts` and its parents below the root as long as they are empty.

        An object store has no empty folders. `rmdir` refuses a directory with anything in it, so a file
        written meanwhile is safe; a writer whose directory vanishes makes it again.
        """
        for depth in range(len(parts), 0, -1):
            try:
                with self.directory(parts[: depth - 1]) as fd:
                    os.rmdir(parts[depth - 1], dir_fd=fd)
            except OSError:
                return
