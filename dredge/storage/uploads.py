"""Multipart uploads: an object that comes in parts, by several requests, and is seen only when complete.

    uploads = open_uploads(writer)
    upload_id = uploads.begin(key)
    first = uploads.put_part(key, upload_id, 1, pieces)
    uploads.complete(key, upload_id, [(1, first.etag)])

Parts are not objects: no listing shows them and no collector can take them, however long an upload lasts. On
S3 they are the store's own multipart uploads (whose object is as old as the upload's *beginning*); in a
folder they are hidden files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from dredge.errors import ConfigError
from dredge.storage.model import ObjectInfo, ObjectWriter

PART_NUMBER_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an upload.

    Attributes:
        number: 1 to PART_NUMBER_MAX; parts are put together in this order.
        size: bytes.
        etag: hash of its content, without quotes.
        last_modified: the store's time, aware UTC.
    """

    number: int
    size: int
    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that was begun and neither completed nor aborted."""

    key: str
    upload_id: str
    begun: datetime


@dataclass(frozen=True, slots=True)
class Completed:
    """A complete upload: the object, and the etag that S3 gives such a one (`<32 hex>-<parts>`)."""

    info: ObjectInfo
    etag: str


class UploadRefusedError(ConfigError):
    """The list of parts cannot be completed.

    Args:
        code: S3's: InvalidPart, InvalidPartOrder or EntityTooSmall.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Uploads(Protocol):
    """Multipart uploads of one store. Every call but `begin` and `open` raises NotFoundError for an upload
    that does not exist (any more), or is of another key.
    """

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """Write a part from pieces, in bounded memory, replacing one of this number; nothing on error."""

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """The parts that are there, by number."""

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """Make the object.

        Args:
            key: of the object.
            upload_id: of the upload.
            parts: number and etag of each, in ascending order.

        Raises:
            UploadRefusedError: no such parts, or not in order; the upload is still open.
        """

    def abort(self, key: str, upload_id: str) -> None:
        """Give an upload up, with all its parts."""

    def open(self) -> list[Upload]:
        """All open uploads, by key and id."""


@runtime_checkable
class Uploading(Protocol):
    """A writer whose store takes multipart uploads: a folder, S3, memory."""

    def uploads(self) -> Uploads:
        """The multipart uploads of this store, open or new."""


def open_uploads(writer: ObjectWriter) -> Uploads:
    """The multipart uploads of the store that a writer writes to.

    Raises:
        ConfigError: this kind of store has none here.
    """
    if not isinstance(writer, Uploading):
        raise ConfigError(f"multipart uploads to {writer.uri} are not supported")
    return writer.uploads()


def combined_etag(etags: Iterable[str]) -> str:
    """The etag of an object made of parts: the MD5 of their MD5s, and their number."""
    digests = [bytes.fromhex(etag) for etag in etags]
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def check_part_number(number: int) -> None:
    """Refuse a part number out of range; raises UploadRefusedError."""
    if not 1 <= number <= PART_NUMBER_MAX:
        raise UploadRefusedError(
            "InvalidArgument", f"part number {number} is not between 1 and {PART_NUMBER_MAX}"
        )


def choose_parts(there: Iterable[Part], wanted: Sequence[tuple[int, str]]) -> list[Part]:
    """The parts that a completion names.

    Raises:
        UploadRefusedError: none named, one is missing or of another etag, or not in ascending order.
    """
    known = {(part.number, part.etag): part for part in there}
    numbers = [number for number, _ in wanted]
    if numbers != sorted(set(numbers)):
        raise UploadRefusedError("InvalidPartOrder", "the parts are not in ascending order")
    missing = [pair for pair in wanted if pair not in known]
    if missing or not wanted:
        raise UploadRefusedError("InvalidPart", f"no such parts: {missing[:3]}")
    return [known[pair] for pair in wanted]
