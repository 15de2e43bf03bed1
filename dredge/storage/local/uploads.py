"""Multipart uploads to a folder: hidden files beside the objects, put together on completion.

    <root>/.dredge-tmp~uploads/<upload id>/key            the object's key
    <root>/.dredge-tmp~uploads/<upload id>/00003.<md5>    a part

Names that begin so are never listed and never addressed (see `folder.RESERVED`). A part is renamed to its
number and hash when it is whole, so everything known of it is in its name.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import BinaryIO

from dredge.durable import sync
from dredge.errors import ConfigError, NotFoundError
from dredge.storage.local.folder import RESERVED, Folder, info_of, is_addressable, os_error
from dredge.storage.local.publish import Unpublished
from dredge.storage.uploads import (
    Completed,
    Part,
    Upload,
    UploadRefusedError,
    check_part_number,
    choose_parts,
    combined_etag,
)

CHUNK_BYTES = 1 << 20
FOLDER = f"{RESERVED}uploads"
_KEY_FILE = "key"
_ID = re.compile(r"[0-9a-f]{32}")
_PART = re.compile(r"(\d{5})\.([0-9a-f]{32})")


class LocalUploads:
    """See `dredge.storage.uploads.Uploads`."""

    def __init__(self, folder: Folder, uri: str) -> None:
        self._folder = folder
        self._uri = uri

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""
        if not is_addressable(key):
            raise ConfigError(f"{key!r} cannot be the name of a file below {self._uri}; nothing was begun")
        upload_id = secrets.token_hex(16)
        with self._translated("beginning an upload"), self._folder.directory([FOLDER, upload_id], True) as fd:
            with open(_create(fd, RESERVED + _KEY_FILE), "wb") as file:
                file.write(key.encode())
                file.flush()
                sync(file.fileno())
            os.rename(RESERVED + _KEY_FILE, _KEY_FILE, src_dir_fd=fd, dst_dir_fd=fd)
            sync(fd)
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """Write a part; see `Uploads.put_part`."""
        check_part_number(number)
        draft = RESERVED + secrets.token_hex(8)
        with self._upload(key, upload_id) as fd:
            digest = hashlib.md5(usedforsecurity=False)
            try:
                with open(_create(fd, draft), "wb") as file:
                    for chunk in chunks:
                        digest.update(chunk)
                        file.write(chunk)
                    file.flush()
                    sync(file.fileno())
                name = f"{number:05d}.{digest.hexdigest()}"
                os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
                sync(fd)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=fd)
                raise
            for other in os.listdir(fd):
                if other.startswith(f"{number:05d}.") and other != name:
                    with suppress(FileNotFoundError):
                        os.unlink(other, dir_fd=fd)
            return _part(fd, name)

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """The parts that are there, by number."""
        with self._upload(key, upload_id) as fd:
            return _parts(fd)

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """Make the object; see `Uploads.complete`."""
        *parents, name = key.split("/")
        with self._upload(key, upload_id) as fd:
            try:
                chosen = choose_parts(_parts(fd), parts)
            except UploadRefusedError:
                _read_key(fd)  # gone: another one completed the upload, and its parts go after it
                raise
            with Unpublished(self._folder, parents) as made:
                for part in chosen:
                    opened = os.open(f"{part.number:05d}.{part.etag}", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
                    with open(opened, "rb") as source:
                        _append(source, made.handle)
                info = info_of(key, made.publish(name))
        self._remove(upload_id)
        return Completed(info, combined_etag(part.etag for part in chosen))

    def abort(self, key: str, upload_id: str) -> None:
        """Give an upload up, with all its parts."""
        with self._upload(key, upload_id):
            pass
        self._remove(upload_id)

    def open(self) -> list[Upload]:
        """All open uploads, by key and id."""
        found = []
        try:
            with self._folder.directory([FOLDER]) as fd:
                names = os.listdir(fd)
        except FileNotFoundError:
            return []
        for name in names:
            with suppress(OSError), self._folder.directory([FOLDER, name]) as fd:
                begun = datetime.fromtimestamp(os.stat(_KEY_FILE, dir_fd=fd).st_mtime, UTC)
                found.append(Upload(_read_key(fd), name, begun))
        return sorted(found, key=lambda each: (each.key, each.upload_id))

    @contextmanager
    def _upload(self, key: str, upload_id: str) -> Iterator[int]:
        """The directory of an upload, after a look whether it is this key's."""
        missing = NotFoundError(f"no upload {upload_id!r} of {key!r} in {self._uri}")
        if not _ID.fullmatch(upload_id):
            raise missing
        with self._translated(f"upload of {key!r}"):
            try:
                fd = self._folder.open_directory([FOLDER, upload_id])
            except FileNotFoundError:
                raise missing from None
            try:
                try:
                    kept = _read_key(fd)
                except FileNotFoundError:
                    raise missing from None
                if kept != key:
                    raise missing
                yield fd
            finally:
                os.close(fd)

    def _remove(self, upload_id: str) -> None:
        """Remove an upload's files: the key first, so that a half-removed one is none."""
        with suppress(FileNotFoundError), self._folder.directory([FOLDER, upload_id]) as fd:
            with suppress(FileNotFoundError):
                os.unlink(_KEY_FILE, dir_fd=fd)
            for name in os.listdir(fd):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)
        self._folder.prune([FOLDER, upload_id])

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise os_error(error, f"{doing} in {self._uri}") from error


def _create(fd: int, name: str) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=fd)


def _read_key(fd: int) -> str:
    with open(os.open(_KEY_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd), "rb") as file:
        return file.read().decode()


def _parts(fd: int) -> list[Part]:
    return [_part(fd, name) for name in sorted(os.listdir(fd)) if _PART.fullmatch(name)]


def _part(fd: int, name: str) -> Part:
    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    number, _, etag = name.partition(".")
    return Part(int(number), found.st_size, etag, datetime.fromtimestamp(found.st_mtime, UTC))


def _append(source: BinaryIO, target: BinaryIO) -> None:
    """Copy inside the kernel where it can, else through a buffer."""
    target.flush()
    left = os.fstat(source.fileno()).st_size
    try:
        while left > 0 and (done := os.copy_file_range(source.fileno(), target.fileno(), left)) > 0:
            left -= done
    except OSError:
        pass
    if left:
        source.seek(-left, os.SEEK_END)
        target.seek(0, os.SEEK_END)
        shutil.copyfileobj(source, target, CHUNK_BYTES)
        target.flush()
