"""Reader, writer and deleter of plain files below a folder, for demonstrations, tests and lakes on one machine.

A key is exactly one plain file below the folder. Symbolic links, pipes and names that are not UTF-8 are no objects,
and paths over links are refused, so no file outside the folder is read, written or deleted. (A link created during a
call is not detected.) Writes are atomic, and durable when they return. Conditional writes work among processes of
Dredge, on file systems that can lock a folder. Empty folders are removed after a deletion.
"""

import errno
import fcntl
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

import pyarrow as pa

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.process import sync
from dredge.storage.keys import is_plain, is_text
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, Level, MaySend, ObjectInfo, SkippedName, always
from dredge.storage.parallel import get_ahead
from dredge.storage.remote import CHUNK_BYTES, OpenObject

RESERVED = ".dredge-tmp~"
"""Prefix of the names of unfinished writes, never listed and never addressed."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_ATTEMPTS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_addressable(key: str) -> bool:
    """Whether a file below the folder can have this key."""
    if not key or "\0" in key or not is_plain(key) or not is_text(key):
        return False
    return RESERVED not in key or not any(part.startswith(RESERVED) for part in key.split("/"))


def os_error(error: OSError, doing: str) -> DredgeError:
    """Translate an error of the operating system."""
    words = f"{doing}: {error.strerror or error}"
    if error.errno in _ABSENT:
        return NotFoundError(words)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return ConfigError(f"{words}. Give this user the right, or choose another folder.")
    return UnavailableError(words)


def info_of(key: str, found: os.stat_result) -> ObjectInfo:
    """Describe a file; every write by this driver changes its etag, which is no hash of the content."""
    modified = _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
    return ObjectInfo(key, found.st_size, modified, etag_of(found))


def etag_of(found: os.stat_result) -> str:
    """Etag of a file: inode, time and size."""
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


class Folder:
    """The root of a local store; its methods raise OSError."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, parts: list[str], create: bool = False) -> str:
        """Path of a folder below the root; raises NotADirectoryError for a link below the root."""
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
        """Path and stat of an object; raises FileNotFoundError unless it is a plain file."""
        *parents, name = key.split("/")
        path = f"{self.path(parents)}/{name}"
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a plain file", key)
        return path, found

    def write(
        self,
        parents: list[str],
        name: str,
        chunks: Iterable[bytes],
        if_absent: bool = False,
        if_match: str | None = None,
    ) -> os.stat_result:
        """Write a file. Its bytes are on disk before it has a name, its name before this returns."""
        folder, draft, file = self._begin(parents)
        try:
            with file:
                file.writelines(chunks)
                file.flush()
                # Finer than the clock of a file system, so each write has another tag.
                moment = time.time_ns()
                os.utime(file.fileno(), ns=(moment, moment))
                found = os.fstat(file.fileno())
                sync(file.fileno())
            with _locked(folder) as names:
                path = f"{folder}/{name}"
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
        raise UnavailableError(f"another process keeps removing a folder below {self.root} during a write")

    def prune(self, parts: list[str]) -> None:
        """Remove the folder `parts` and its parents below the root if they are empty."""
        with suppress(OSError):
            for depth in range(len(parts), 0, -1):
                os.rmdir(self.path(parts[:depth]))


def _make(path: str) -> None:
    """Create a folder and its parents, on disk."""
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


BATCH_ROWS = 8192

log = logging.getLogger(__name__)


def _log_skipped(name: str) -> None:
    log.warning("listing: %s has no key and is skipped", name)


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
    """List one level, including empty folders; see `ObjectReader.list_level`."""
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


_NO_SUCH_FILE_POSSIBLE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


class _Local:
    def __init__(self, location: Location) -> None:
        self._location = location
        self._folder = Folder(location.root)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._location.uri


class LocalReader(_Local):
    """An `ObjectReader` of files below a folder."""

    is_remote = False

    def stat(self, key: str) -> ObjectInfo:
        self._check(key)
        try:
            return info_of(key, self._folder.find(key)[1])
        except OSError as error:
            raise os_error(error, f"stat of {key!r} in {self.uri}") from error

    def get(self, key: str) -> bytes:
        with self._open(key) as file:
            return file.read()

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return get_ahead(self.get, keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._open(key) as file:
            file.seek(start)
            return file.read(length)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        file = self._open(key)
        file.seek(start)
        info = info_of(key, os.fstat(file.fileno()))
        return OpenObject(info, _chunks(file, info.size if length is None else length), file.close)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        return list_folder(self._folder, prefix, start_after, stop_before, on_skipped)

    def list_level(self, prefix: str = "") -> Level:
        return list_folder_level(self._folder, prefix)

    def _check(self, key: str) -> None:
        if not is_addressable(key):
            raise NotFoundError(
                f"{key!r} is no name that a file below {self.uri} can have, so there is no such object"
            )

    def _open(self, key: str) -> BinaryIO:
        self._check(key)
        try:
            return open(self._folder.find(key)[0], "rb")
        except OSError as error:
            raise os_error(error, f"reading {key!r} in {self.uri}") from error


def _chunks(file: BinaryIO, left: int) -> Iterator[bytes]:
    while piece := file.read(min(CHUNK_BYTES, max(0, left))):
        left -= len(piece)
        yield piece


class LocalWriter(LocalReader):
    """An `ObjectWriter` of files below a folder."""

    def put(self, key: str, data: bytes) -> str | None:
        return self._write(key, [data]).etag

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._write(key, [data], if_absent=True).etag

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        return self._write(key, [data], if_match=etag).etag

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        return self._write(key, chunks, if_absent=if_absent)

    def copy(self, source: str, target: str) -> ObjectInfo:
        with self.open_read(source) as opened:
            return self._write(target, opened)

    def _write(
        self, key: str, chunks: Iterable[bytes], if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        if not is_addressable(key):
            raise ConfigError(f"{key!r} cannot be the name of a file below {self.uri}; nothing was written")
        *parents, name = key.split("/")
        try:
            return info_of(key, self._folder.write(parents, name, chunks, if_absent, if_match))
        except OSError as error:
            if error.errno in _NO_SUCH_FILE_POSSIBLE:
                raise ConfigError(
                    f"writing {key!r} in {self.uri}: {error.strerror}. A folder cannot hold this name beside "
                    "its files; nothing was written"
                ) from error
            raise os_error(error, f"writing {key!r} in {self.uri}") from error


class LocalDeleter(_Local):
    """An `ObjectDeleter` of files below a folder, by their exact names, and of folders that become empty."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        outcomes = {key: self._delete(key, may_send) for key in dict.fromkeys(keys)}
        emptied = {key.rpartition("/")[0] for key, told in outcomes.items() if told.outcome == "deleted"}
        for parent in emptied - {""}:
            self._folder.prune(parent.split("/"))
        return [outcomes[key] for key in keys]

    def _delete(self, key: str, may_send: MaySend) -> DeleteOutcome:
        if not is_addressable(key):
            return DeleteOutcome(key, "not_addressable")
        if not may_send():
            return DeleteOutcome(key, "failed", NOT_SENT)
        try:
            os.unlink(self._folder.find(key)[0])
        except OSError as error:
            if isinstance(os_error(error, "delete"), NotFoundError):
                return DeleteOutcome(key, "missing")
            return DeleteOutcome(
                key, "failed", errno.errorcode.get(error.errno or 0, "OSError"), error.strerror
            )
        return DeleteOutcome(key, "deleted")
