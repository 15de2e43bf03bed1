"""Multipart uploads: an object in parts, by several requests, visible only when complete.

    uploads = open_uploads(writer)
    upload_id = uploads.begin(key)
    first = uploads.put_part(key, upload_id, 1, pieces)
    uploads.complete(key, upload_id, [(1, first.etag)])

The parts are objects in a folder of their own, outside `data/`, where no collector looks.
"""

import hashlib
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from dredge.errors import ConfigError, NotFoundError
from dredge.storage import ObjectDeleter, ObjectInfo, ObjectWriter, open_deleter
from dredge.storage.keys import is_text

PART_NUMBER_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an upload; numbers begin at 1."""

    number: int
    size: int
    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Completed:
    """A complete upload: the object, and the etag of S3 for it (`<32 hex>-<parts>`)."""

    info: ObjectInfo
    etag: str


class UploadRefusedError(ConfigError):
    """An invalid list of parts; `code` is S3's: InvalidPart, InvalidPartOrder or EntityTooSmall."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Uploads(Protocol):
    """Multipart uploads of one store. All methods except `begin` raise NotFoundError for an unknown
    upload, or one of another key.
    """

    def begin(self, key: str) -> str:
        """Begin an upload; returns its id."""

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """Write or replace a part from chunks in bounded memory."""

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """The parts, by number."""

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """Make the object of the parts' numbers and etags, in ascending order.

        After UploadRefusedError (unknown parts, or another order) the upload is still open.
        """

    def abort(self, key: str, upload_id: str) -> None:
        """Delete an upload with its parts."""


@runtime_checkable
class Uploading(Protocol):
    """A writer whose store has multipart uploads of its own, as the simulated one."""

    def uploads(self) -> Uploads:
        """The multipart uploads of this store."""


def open_uploads(writer: ObjectWriter) -> Uploads:
    """The multipart uploads of a writer's store."""
    if isinstance(writer, Uploading):
        return writer.uploads()
    return PartObjects(writer, open_deleter(f"{writer.uri}/{PARTS}", getattr(writer, "options", None)))


def combined_etag(etags: Iterable[str]) -> str:
    """The etag of an object in parts: the MD5 of their MD5s, and their number."""
    digests = [bytes.fromhex(etag) for etag in etags]
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def check_part_number(number: int) -> None:
    """Raise UploadRefusedError for a number out of range."""
    if not 1 <= number <= PART_NUMBER_MAX:
        raise UploadRefusedError(
            "InvalidArgument", f"part number {number} is not between 1 and {PART_NUMBER_MAX}"
        )


def choose_parts(there: Iterable[Part], wanted: Sequence[tuple[int, str]]) -> list[Part]:
    """The parts of a completion; raises UploadRefusedError."""
    known = {(part.number, part.etag): part for part in there}
    numbers = [number for number, _ in wanted]
    if numbers != sorted(set(numbers)):
        raise UploadRefusedError("InvalidPartOrder", "the parts are not in ascending order")
    missing = [pair for pair in wanted if pair not in known]
    if missing or not wanted:
        raise UploadRefusedError("InvalidPart", f"no such parts: {missing[:3]}")
    return [known[pair] for pair in wanted]


PARTS = "_dredge_uploads"
_KEY = "key"
_ID = re.compile(r"[0-9a-f]{32}")
# A part has its hash in its name, so it waits until it is read whole: up to this size in memory, else on disk.
_SPOOL_BYTES = 8 << 20


class PartObjects:
    """Uploads whose parts are objects of the store; see `Uploads`. `deleter` is one on the folder with the parts.

    _dredge_uploads/<upload id>/key            the object's key
    _dredge_uploads/<upload id>/00003.<md5>    a part
    """

    def __init__(self, writer: ObjectWriter, deleter: ObjectDeleter) -> None:
        self._writer = writer
        self._deleter = deleter

    def begin(self, key: str) -> str:
        """See `Uploads.begin`."""
        if not key or not is_text(key):
            raise ConfigError(
                f"{key!r} cannot be the name of an object below {self._writer.uri}; nothing was begun"
            )
        upload_id = secrets.token_hex(16)
        self._writer.put(f"{PARTS}/{upload_id}/{_KEY}", key.encode())
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """See `Uploads.put_part`."""
        check_part_number(number)
        self._demand(key, upload_id)
        digest = hashlib.md5(usedforsecurity=False)
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            for chunk in chunks:
                digest.update(chunk)
                spool.write(chunk)
            spool.seek(0)
            name = f"{number:05d}.{digest.hexdigest()}"
            pieces = iter(lambda: spool.read(_SPOOL_BYTES), b"")
            info = self._writer.put_stream(f"{PARTS}/{upload_id}/{name}", pieces)
        try:
            self._demand(key, upload_id)
        except NotFoundError:  # ended meanwhile
            self._remove(upload_id, [name])
            raise
        earlier = [other for other in self._names(upload_id) if other[:6] == name[:6] and other != name]
        self._remove(upload_id, earlier)
        return _part(info)

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """See `Uploads.parts`."""
        self._demand(key, upload_id)
        return self._parts(upload_id)

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """See `Uploads.complete`."""
        self._demand(key, upload_id)
        try:
            chosen = choose_parts(self._parts(upload_id), parts)
        except UploadRefusedError:
            self._demand(
                key, upload_id
            )  # raises if another process completed the upload and is removing its parts
            raise
        info = self._writer.put_stream(key, self._contents(upload_id, chosen))
        self._end(upload_id)
        return Completed(info, combined_etag(part.etag for part in chosen))

    def abort(self, key: str, upload_id: str) -> None:
        """See `Uploads.abort`."""
        self._demand(key, upload_id)
        self._end(upload_id)

    def _demand(self, key: str, upload_id: str) -> None:
        """Raise NotFoundError unless the upload is open, and of this key."""
        with suppress(NotFoundError):
            if _ID.fullmatch(upload_id) and self._writer.get(f"{PARTS}/{upload_id}/{_KEY}") == key.encode():
                return
        raise NotFoundError(f"no upload {upload_id!r} of {key!r} in {self._writer.uri}")

    def _parts(self, upload_id: str) -> list[Part]:
        found = self._writer.list_level(f"{PARTS}/{upload_id}/").objects
        return sorted(
            (_part(item) for item in found if not item.key.endswith(f"/{_KEY}")), key=lambda part: part.number
        )

    def _names(self, upload_id: str) -> list[str]:
        return [f"{part.number:05d}.{part.etag}" for part in self._parts(upload_id)]

    def _contents(self, upload_id: str, parts: Iterable[Part]) -> Iterator[bytes]:
        for part in parts:
            with self._writer.open_read(f"{PARTS}/{upload_id}/{part.number:05d}.{part.etag}") as stream:
                yield from stream

    def _end(self, upload_id: str) -> None:
        # The key comes first, so a half-removed upload is none.
        self._remove(upload_id, [_KEY])
        self._remove(upload_id, self._names(upload_id))

    def _remove(self, upload_id: str, names: Iterable[str]) -> None:
        self._deleter.delete([f"{upload_id}/{name}" for name in names])


def _part(info: ObjectInfo) -> Part:
    number, _, etag = info.key.rpartition("/")[2].partition(".")
    return Part(int(number), info.size, etag, info.last_modified)
