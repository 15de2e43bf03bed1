"""What the service says of an object, as rows and as values of ours.

The service's own ETag changes with every change of metadata and says nothing about the content, so that an object's tag
here is its MD5 in hexadecimal, as S3's is, where the service knows it; else `crc32c-…` (objects that were composed or
uploaded in parts), else `generation-…` (objects under a key of the customer's own). A write under the condition of a
tag is one under the condition of the generation that had it: content that was written again is another generation.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC

import msgspec
import pyarrow as pa

from dredge.errors import FormatError
from dredge.storage.model import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS, STORAGE_CLASS, ObjectInfo

FIELDS = "name,size,updated,generation,md5Hash,crc32c,storageClass"
_TIME = LISTING_SCHEMA.field("last_modified").type


class Resource(msgspec.Struct, rename="camel"):
    """An object resource, as far as it is asked for."""

    name: str
    size: str
    updated: str
    generation: str
    md5_hash: str | None = None
    crc32c: str | None = None
    storage_class: str = "STANDARD"
    time_deleted: str | None = None


class Listed(msgspec.Struct, rename="camel"):
    """A page of a listing."""

    kind: str
    items: list[Resource] = []
    prefixes: list[str] = []
    next_page_token: str | None = None


_resource = msgspec.json.Decoder(Resource)
_listed = msgspec.json.Decoder(Listed)


def read_resource(body: bytes, doing: str) -> Resource:
    """Read an object resource; raises FormatError."""
    try:
        return _resource.decode(body)
    except msgspec.MsgspecError as error:
        raise FormatError(f"{doing}: the answer describes no object: {error}") from None


def read_page(body: bytes, doing: str) -> Listed:
    """Read a page of a listing; raises FormatError when it is not whole."""
    try:
        page = _listed.decode(body)
    except msgspec.MsgspecError as error:
        raise FormatError(
            f"{doing}: the answer is no complete listing page: {error}. Nothing of it is used"
        ) from None
    if page.kind != "storage#objects":
        raise FormatError(f"{doing}: the answer is a {page.kind}, and no listing page")
    return page


def tag(found: Resource) -> str:
    """The tag of an object (see this module's text)."""
    if found.md5_hash:
        return hexadecimal(found.md5_hash)
    if found.crc32c:
        return f"crc32c-{hexadecimal(found.crc32c)}"
    return f"generation-{found.generation}"


def hexadecimal(encoded: str) -> str:
    """A checksum in Base64 as hexadecimal digits; raises FormatError."""
    try:
        return binascii.a2b_base64(encoded).hex()
    except ValueError:
        raise FormatError(f"{encoded!r} is no checksum") from None


def encoded_checksum(digest: bytes) -> str:
    """A checksum as the service wants it."""
    return base64.b64encode(digest).decode()


def rows(found: Sequence[Resource], cut: int) -> pa.RecordBatch:
    """A page as rows of `LISTING_SCHEMA_WITH_CLASS`.

    Args:
        found: objects.
        cut: characters at the beginning of each name that belong to the root.

    Raises:
        FormatError: a time or a size is none.
    """
    try:
        arrays = [
            pa.array([item.name[cut:] for item in found], pa.string()),
            pa.array([item.size for item in found], pa.string()).cast(pa.int64()),
            pa.array([item.updated for item in found], pa.string()).cast(_TIME),
            pa.array([tag(item) for item in found], pa.string()),
            pa.array([_special(item.storage_class) for item in found], pa.string()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA_WITH_CLASS)
    except (pa.ArrowException, ValueError) as error:
        raise FormatError(f"unreadable description of objects: {error}") from None


def _special(storage_class: str) -> str | None:
    """A class that is not the plain one, and by a name that no other store has."""
    return None if storage_class == "STANDARD" else f"GCS_{storage_class}"


def info(key: str, found: Resource) -> ObjectInfo:
    """An object as a value.

    `last_modified` is when it was written, or its metadata was changed, whichever is later: who takes it for its age
    finds it too young rather than too old.
    """
    row = rows([found], 0).to_pylist()[0]
    modified = row["last_modified"].astimezone(UTC)
    return ObjectInfo(key, row["size"], modified, row["etag"], row[STORAGE_CLASS])
