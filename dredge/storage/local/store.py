"""Reader, writer and deleter of objects that are plain files below a folder; see `folder` for what it promises."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Self

import pyarrow as pa

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.local.folder import (
    Folder,
    info_of,
    is_addressable,
    list_folder,
    list_folder_level,
    os_error,
)
from dredge.storage.local.uploads import LocalUploads
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, Level, MaySend, ObjectInfo, SkippedName, always
from dredge.storage.parallel import ordered_map

CHUNK_BYTES = 1 << 20
_NO_SUCH_FILE_POSSIBLE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


class LocalReader:
    """Reads files below a folder as objects."""

    is_remote = False

    def __init__(self, location: Location) -> None:
        self._location = location
        self._folder = Folder(location.root)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def stat(self, key: str) -> ObjectInfo:
        """Look one object up; raises NotFoundError."""
        self._check(key)
        try:
            return info_of(key, self._folder.find(key)[1])
        except OSError as error:
            raise os_error(error, f"stat of {key!r} in {self.uri}") from error

    def get(self, key: str) -> bytes:
        """Read one object whole; raises NotFoundError."""
        with self._open(key) as file:
            return file.read()

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        """Read many objects in order; see `ObjectReader.get_many`."""
        return zip(keys, ordered_map(self.get, keys, concurrency), strict=True)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer only where the object ends."""
        with self._open(key) as file:
            file.seek(start)
            return file.read(length)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> LocalStream:
        """Open an object for reading in pieces; raises NotFoundError."""
        file = self._open(key)
        file.seek(start)
        return LocalStream(file, info_of(key, os.fstat(file.fileno())), length)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List recursively in key order; see `ObjectReader.list`."""
        return list_folder(self._folder, prefix, start_after, stop_before, on_skipped)

    def list_level(self, prefix: str = "") -> Level:
        """List one level; see `ObjectReader.list_level`."""
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


class LocalStream:
    """An open file, read in pieces."""

    def __init__(self, file: BinaryIO, info: ObjectInfo, length: int | None) -> None:
        self._file = file
        self._left = info.size if length is None else length
        self.info = info

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._file.read(min(CHUNK_BYTES, max(0, self._left))):
            self._left -= len(piece)
            yield piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class LocalWriter(LocalReader):
    """Reads and writes files below a folder as objects."""

    def put(self, key: str, data: bytes) -> str | None:
        """Write an object whole, replacing what was there."""
        return self._write(key, [data]).etag

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Write an object that must not exist; raises ConflictError when it does."""
        return self._write(key, [data], if_absent=True).etag

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object that must still have `etag`; raises ConflictError otherwise."""
        return self._write(key, [data], if_match=etag).etag

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """Write an object from pieces in bounded memory."""
        return self._write(key, chunks, if_absent=if_absent)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copy an object inside the folder; raises NotFoundError."""
        with self.open_read(source) as opened:
            return self._write(target, opened)

    def uploads(self) -> LocalUploads:
        """Multipart uploads to this folder."""
        return LocalUploads(self._folder, self.uri)

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
                    "what is in it; nothing was written"
                ) from error
            raise os_error(error, f"writing {key!r} in {self.uri}") from error


class LocalDeleter:
    """Deletes files below a folder, each by exactly its own name, and the folders that became empty."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._folder = Folder(location.root)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key; see `ObjectDeleter.delete`."""
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
