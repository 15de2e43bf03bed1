"""The files below a folder of this machine as objects, for demonstrations, tests and lakes of one machine.

The promise: a key is exactly one plain file below the folder. Symbolic links, pipes and names that are not UTF-8 are no
objects, and a path that leads over a link is refused, so that nothing outside of the folder is read, written or
deleted; this holds against links that are there, not against somebody who puts one in place during a call. An object is
seen whole or not at all, and after a power cut it is the old one or the new one; what was acknowledged is there.
Conditional writes hold among processes of Dredge on a file system that can lock a folder. Folders that a deletion
emptied are removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.process import sync
from dredge.storage.keys import is_plain, is_text
from dredge.storage.model import ObjectInfo

RESERVED = ".dredge-tmp~"
"""File names that begin so are our unfinished writes: never listed, never addressed."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_ATTEMPTS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_addressable(key: str) -> bool:
    """Whether exactly this key can be a file below the folder."""
    if not key or "\0" in key or not is_plain(key) or not is_text(key):
        return False
    return RESERVED not in key or not any(part.startswith(RESERVED) for part in key.split("/"))


def os_error(error: OSError, doing: str) -> DredgeError:
    """Translate an operating system error into one of our families."""
    words = f"{doing}: {error.strerror or error}"
    if error.errno in _ABSENT:
        return NotFoundError(words)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return ConfigError(f"{words}. Give this user the right, or choose another folder.")
    return UnavailableError(words)


def info_of(key: str, found: os.stat_result) -> ObjectInfo:
    """Describe a file. Its tag changes with every write through this driver, and says nothing of the content."""
    modified = _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
    return ObjectInfo(key, found.st_size, modified, etag_of(found))


def etag_of(found: os.stat_result) -> str:
    """The tag of a file: inode, time and size."""
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


class Folder:
    """The root of a local store; every method raises OSError as the system says."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, parts: list[str], create: bool = False) -> str:
        """The path of a folder below the root, which may itself be a link; raises where the way leads over a link."""
        path = self.root
        if create:
            _make(os.path.abspath(path))
        for part in parts:
            path = f"{path}/{part}"
            if create:
                _make(path)
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "a symbolic link is no folder", path)
        return path

    def find(self, key: str) -> tuple[str, os.stat_result]:
        """The path of an object, and its stat; raises (ENOENT) when it is no plain file."""
        *parents, name = key.split("/")
        path = f"{self.path(parents)}/{name}"
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a plain file", key)
        return path, found

    def write(
        self,
        parents: list[str],
        name: str | Callable[[], str],
        chunks: Iterable[bytes],
        if_absent: bool = False,
        if_match: str | None = None,
    ) -> os.stat_result:
        """Write a file. Its bytes are on the disk before it has a name, its name before this returns.

        Args:
            parents: names of the folders above it; made where they are missing.
            name: of the file, or gives it when the bytes are written.
            chunks: the bytes.
            if_absent: only when the name is free.
            if_match: only when the present file has this etag.

        Raises:
            ConflictError: the condition does not hold; nothing changed.
        """
        folder, draft, file = self._begin(parents)
        try:
            with file:
                file.writelines(chunks)
                file.flush()
                moment = (
                    time.time_ns()
                )  # finer than a file system's clock, so that each write has a tag of its own
                os.utime(file.fileno(), ns=(moment, moment))
                found = os.fstat(file.fileno())
                sync(file.fileno())
            with _locked(folder) as names:
                path = f"{folder}/{name if isinstance(name, str) else name()}"
                _check(path, if_absent, if_match)
                os.replace(draft, path)
                sync(names)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        return found

    def _begin(self, parents: list[str]) -> tuple[str, str, BinaryIO]:
        for _ in range(_ATTEMPTS):
            # A deleter may remove the folder while it is empty. Once the draft is in it, it stays.
            with suppress(FileNotFoundError):
                folder = self.path(parents, create=True)
                draft = f"{folder}/{RESERVED}{secrets.token_hex(8)}"
                return folder, draft, open(draft, "xb")
        raise UnavailableError(
            f"a folder below {self.root} is removed again and again while we write into it"
        )

    def prune(self, parts: list[str]) -> None:
        """Remove the folder `parts` and its parents below the root as long as they are empty."""
        with suppress(OSError):
            for depth in range(len(parts), 0, -1):
                os.rmdir(self.path(parts[:depth]))


def _make(path: str) -> None:
    """Make a folder, and those above it, and force their names to the disk."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make(os.path.dirname(path))
        _make(path)
        return
    with _opened(os.path.dirname(path)) as above:
        sync(above)


def _check(path: str, if_absent: bool, if_match: str | None) -> None:
    present = None
    with suppress(FileNotFoundError):
        present = etag_of(os.lstat(path))
    if if_absent and present is not None:
        raise ConflictError(f"{path!r} exists already; nothing was written")
    if if_match is not None and present != if_match:
        raise ConflictError(f"{path!r} is not the version that was expected; nothing was written")


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _locked(folder: str) -> Iterator[int]:
    """Lock a folder against other writers of this driver, in all threads and processes."""
    with _opened(folder) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
