"""Writing a file so that nobody sees it before it is complete, with or without a condition."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from dredge.durable import sync
from dredge.errors import ConflictError, UnavailableError
from dredge.storage.local.folder import RESERVED, Folder, etag_of

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK})
_ATTEMPTS = 1000


class Unpublished:
    """A new file in a folder that has no name yet; without `publish` nothing of it stays."""

    def __init__(self, folder: Folder, parents: list[str]) -> None:
        self._name = RESERVED + secrets.token_hex(8)
        self._fd, opened = self._create(folder, parents)
        self.handle = open(opened, "wb")  # noqa: SIM115 (closed by publish or __exit__)

    def _create(self, folder: Folder, parents: list[str]) -> tuple[int, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        for _ in range(_ATTEMPTS):
            # A deleter may remove the folder when it is empty, also between our mkdir and our open. Once the
            # temporary file is in it, it stays.
            try:
                fd = folder.open_directory(parents, create=True)
            except FileNotFoundError:
                continue
            try:
                return fd, os.open(self._name, flags, 0o666, dir_fd=fd)
            except FileNotFoundError:
                os.close(fd)
            except BaseException:
                os.close(fd)
                raise
        raise UnavailableError(
            f"a folder below {folder.root} is removed again and again while we write into it"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.handle.close()
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._fd)
            os.close(self._fd)

    def publish(self, name: str, if_absent: bool = False, if_match: str | None = None) -> os.stat_result:
        """Give the file its name. Its bytes are on the disk before it has the name, the name before this returns.

        Args:
            name: file name in the folder.
            if_absent: only when the name is free.
            if_match: only when the present file has this etag.

        Returns:
            The published file's stat.

        Raises:
            ConflictError: the condition does not hold; nothing changed.
        """
        self.handle.flush()
        found = _make_distinct(self.handle.fileno())
        sync(self.handle.fileno())
        with _locked(self._fd, exclusive=if_absent or if_match is not None):
            if if_match is not None and _current_etag(self._fd, name) != if_match:
                raise ConflictError(f"{name!r} is not the version that was expected; nothing was written")
            if if_absent:
                self._link(name)
            else:
                os.rename(self._name, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        sync(self._fd)
        return found

    def _link(self, name: str) -> None:
        taken = ConflictError(f"{name!r} exists already; nothing was written")
        try:
            os.link(self._name, name, src_dir_fd=self._fd, dst_dir_fd=self._fd, follow_symlinks=False)
        except FileExistsError:
            raise taken from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A file system without hard links: the lock stands in.
            if _current_etag(self._fd, name) is not None:
                raise taken from None
            os.rename(self._name, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)


def _make_distinct(opened: int) -> os.stat_result:
    """Give the file a time of its own.

    File systems keep time in ticks of milliseconds and use inodes again, so two writes in one tick could get
    the same etag. Less than a millisecond of noise tells them apart.
    """
    moment = _look(opened).st_mtime_ns + secrets.randbelow(1_000_000)
    os.utime(opened, ns=(moment, moment))
    return os.fstat(opened)


def _look(opened: int) -> os.stat_result:
    return os.fstat(opened)


def _current_etag(fd: int, name: str) -> str | None:
    try:
        return etag_of(os.stat(name, dir_fd=fd, follow_symlinks=False))
    except FileNotFoundError:
        return None


@contextmanager
def _locked(fd: int, exclusive: bool) -> Iterator[None]:
    """Lock the directory against other writers of this driver, in all threads and processes.

    Plain writes share the lock, conditional ones exclude everybody. Where directories cannot be locked (NFS),
    a hidden lock file in them takes the part.
    """
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    lock = fd
    try:
        fcntl.flock(fd, mode)
    except OSError:
        lock = os.open(f"{RESERVED}lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=fd)
    try:
        if lock != fd:
            fcntl.flock(lock, mode)
        yield
    finally:
        if lock == fd:
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            os.close(lock)
