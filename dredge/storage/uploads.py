"""Multipart uploads: an object in parts, by several requests, visible only when complete.

    uploads = open_uploads(writer)
    upload_id = uploads.begin(key)
    first = uploads.put_part(key, upload_id, 1, pieces)
    uploads.complete(key, upload_id, [(1, first.etag)])

Parts are not objects, so no listing has them and no collector deletes them. In S3 they are the store's own multipart
uploads (the object's time is the *beginning* of the upload), in a folder hidden files.
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
        number: 1 to PART_NUMBER_MAX, the order of the parts.
    """

    number: int
    size: int
    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Upload:
    """An open upload."""

    key: str
    upload_id: str
    begun: datetime


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
    """Multipart uploads of one store. All methods except `begin` and `open` raise NotFoundError for an unknown
    upload, or one of another key.
    """

    def begin(self, key: str) -> str:
        """Begin an upload; returns its id."""

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """Write or replace a part from chunks in bounded memory."""

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """The parts, by number."""

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """Make the object.

        Args:
            parts: number and etag of each, in ascending order.

        Raises:
            UploadRefusedError: unknown parts, or another order; the upload is still open.
        """

    def abort(self, key: str, upload_id: str) -> None:
        """Delete an upload with its parts."""

    def open(self) -> list[Upload]:
        """All open uploads, by key and id."""


@runtime_checkable
class Uploading(Protocol):
    """A writer whose store has multipart uploads: a folder, S3, memory."""

    def uploads(self) -> Uploads:
        """The multipart uploads of this store."""


def open_uploads(writer: ObjectWriter) -> Uploads:
    """The multipart uploads of a writer's store; raises ConfigError if it has none."""
    if not isinstance(writer, Uploading):
        raise ConfigError(f"multipart uploads to {writer.uri} are not supported")
    return writer.uploads()


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
