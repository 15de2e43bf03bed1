"""Reader, writer and deleter of plain files below a folder; see `folder`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.local import folder
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, Level, MaySend, ObjectInfo, SkippedName, always
from dredge.storage.parallel import ordered_map
from dredge.storage.remote import CHUNK_BYTES, OpenObject

_NO_SUCH_FILE_POSSIBLE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


class _Local:
    def __init__(self, location: Location) -> None:
        self._location = location
        self._folder = folder.Folder(location.root)

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
            return folder.info_of(key, self._folder.find(key)[1])
        except OSError as error:
            raise folder.os_error(error, f"stat of {key!r} in {self.uri}") from error

    def get(self, key: str) -> bytes:
        with self._open(key) as file:
            return file.read()

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        return zip(keys, ordered_map(self.get, keys, concurrency), strict=True)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._open(key) as file:
            file.seek(start)
            return file.read(length)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        file = self._open(key)
        file.seek(start)
        info = folder.info_of(key, os.fstat(file.fileno()))
        return OpenObject(info, _chunks(file, info.size if length is None else length), file.close)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        return folder.list_folder(self._folder, prefix, start_after, stop_before, on_skipped)

    def list_level(self, prefix: str = "") -> Level:
        return folder.list_folder_level(self._folder, prefix)

    def _check(self, key: str) -> None:
        if not folder.is_addressable(key):
            raise NotFoundError(
                f"{key!r} is no name that a file below {self.uri} can have, so there is no such object"
            )

    def _open(self, key: str) -> BinaryIO:
        self._check(key)
        try:
            return open(self._folder.find(key)[0], "rb")
        except OSError as error:
            raise folder.os_error(error, f"reading {key!r} in {self.uri}") from error


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
        if not folder.is_addressable(key):
            raise ConfigError(f"{key!r} cannot be the name of a file below {self.uri}; nothing was written")
        *parents, name = key.split("/")
        try:
            return folder.info_of(key, self._folder.write(parents, name, chunks, if_absent, if_match))
        except OSError as error:
            if error.errno in _NO_SUCH_FILE_POSSIBLE:
                raise ConfigError(
                    f"writing {key!r} in {self.uri}: {error.strerror}. A folder cannot hold this name beside "
                    "its files; nothing was written"
                ) from error
            raise folder.os_error(error, f"writing {key!r} in {self.uri}") from error


class LocalDeleter(_Local):
    """An `ObjectDeleter` of files below a folder, by their exact names, and of folders that become empty."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        outcomes = {key: self._delete(key, may_send) for key in dict.fromkeys(keys)}
        emptied = {key.rpartition("/")[0] for key, told in outcomes.items() if told.outcome == "deleted"}
        for parent in emptied - {""}:
            self._folder.prune(parent.split("/"))
        return [outcomes[key] for key in keys]

    def _delete(self, key: str, may_send: MaySend) -> DeleteOutcome:
        if not folder.is_addressable(key):
            return DeleteOutcome(key, "not_addressable")
        if not may_send():
            return DeleteOutcome(key, "failed", NOT_SENT)
        try:
            os.unlink(self._folder.find(key)[0])
        except OSError as error:
            if isinstance(folder.os_error(error, "delete"), NotFoundError):
                return DeleteOutcome(key, "missing")
            return DeleteOutcome(
                key, "failed", errno.errorcode.get(error.errno or 0, "OSError"), error.strerror
            )
        return DeleteOutcome(key, "deleted")
