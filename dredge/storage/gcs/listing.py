"""Lists a prefix of a bucket: pages of a thousand objects in strict order, every key exact; objects as rows and
values.

The service's own ETag changes with metadata and is no hash of the content. So the tag of an object is here its MD5 in
hexadecimal, as in S3; without an MD5 `crc32c-…` (composed objects, multipart uploads), or `generation-…` (objects
under a customer's key). A write with a tag as its condition has the condition of the generation with that tag.

Source: Cloud Storage JSON API, Objects: list (lexicographic order by name, startOffset inclusive, endOffset
exclusive,
short or empty pages with a successor).
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.storage.gcs.wire import ask, bucket_url
from dredge.storage.keys import is_text
from dredge.storage.listing_schema import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.options import GcsOptions
from dredge.storage.remote import infos_of

FIELDS = "name,size,updated,generation,md5Hash,crc32c,storageClass"
_TIME = LISTING_SCHEMA.field("last_modified").type


class Resource(msgspec.Struct, rename="camel"):
    """The requested fields of an object resource."""

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
    """Read a page of a listing; raises FormatError."""
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
    """The tag of an object; see the module."""
    if found.md5_hash:
        return hexadecimal(found.md5_hash)
    if found.crc32c:
        return f"crc32c-{hexadecimal(found.crc32c)}"
    return f"generation-{found.generation}"


def hexadecimal(encoded: str) -> str:
    """A Base64 checksum in hexadecimal; raises FormatError."""
    try:
        return binascii.a2b_base64(encoded).hex()
    except ValueError:
        raise FormatError(f"{encoded!r} is no checksum") from None


def encoded_checksum(digest: bytes) -> str:
    """A checksum in Base64."""
    return base64.b64encode(digest).decode()


def rows(found: Sequence[Resource], cut: int) -> pa.RecordBatch:
    """Objects as rows of `LISTING_SCHEMA_WITH_CLASS`; `cut` is the length of the root in each name."""
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
    return None if storage_class == "STANDARD" else f"GCS_{storage_class}"


def info(key: str, found: Resource) -> ObjectInfo:
    """An object as a value.

    `last_modified` is the later time of its last write and of its last change of metadata, so its age is never too
    high.
    """
    return replace(infos_of(rows([found], 0))[0], key=key)


PAGE_ROWS = 1000
BATCH_ROWS = 8000


def pages(
    options: GcsOptions, bucket: str, prefix: str, fields: str = FIELDS, **more: str
) -> Iterator[Listed]:
    """All pages of one listing. `prefix`: whole, from the root of the bucket."""
    doing = f"listing gs://{bucket}/{prefix}"
    asked: dict[str, Any] = {
        "prefix": prefix,
        "maxResults": PAGE_ROWS,
        "fields": f"kind,nextPageToken,prefixes,items({fields})",
        **more,
    }
    url, seen = f"{bucket_url(options, bucket)}/o", set[str]()
    while True:
        try:
            answer = ask(options, "GET", url, doing, params=asked)
        except NotFoundError:
            raise ConfigError(f"{doing}: the bucket does not exist at this endpoint") from None
        page = read_page(answer.body, doing)
        yield page
        token = page.next_page_token
        if not token:
            return
        if token in seen:
            raise FormatError(f"{doing}: the server repeats a page token, so the listing never ends")
        seen.add(token)
        asked["pageToken"] = token


def list_objects(
    options: GcsOptions, bucket: str, root: str, prefix: str, start_after: str, stop_before: str
) -> Iterator[pa.RecordBatch]:
    """List keys below `root` (a prefix that ends with "/", or ""); see `ObjectReader.list`."""
    if not is_text(prefix + start_after + stop_before):
        raise ConfigError(f"{prefix!r} cannot begin the name of an object in gs://{bucket}/{root}")
    whole, bounds = root + prefix, {}
    if start_after:
        bounds["startOffset"] = root + start_after
    if stop_before:
        bounds["endOffset"] = root + stop_before
    last, held = "", list[Resource]()
    for page in pages(options, bucket, whole, **bounds):
        last = _in_order(page.items, last, whole)
        held += _within(page.items, bounds)
        if len(held) >= BATCH_ROWS:
            yield rows(held, len(root))
            held = []
    if held:
        yield rows(held, len(root))


def _within(items: list[Resource], bounds: dict[str, str]) -> list[Resource]:
    # startOffset is inclusive, and some endpoints know no bounds.
    low, high = bounds.get("startOffset", ""), bounds.get("endOffset", "")
    if not items or (items[0].name > low and (not high or items[-1].name < high)):
        return items
    return [item for item in items if item.name > low and (not high or item.name < high)]


def _in_order(items: list[Resource], last: str, prefix: str) -> str:
    """Check that names ascend strictly, below the prefix; returns the last name.

    Listings of key ranges side by side, and comparisons of listings, need the order.
    """
    for item in items:
        if item.name <= last or not item.name.startswith(prefix):
            raise FormatError(
                f"listing {prefix!r}: {item.name!r} after {last!r} is not in order, or not below the prefix."
                " Nothing of this listing may be used."
            )
        last = item.name
    return last


def list_one_level(options: GcsOptions, bucket: str, root: str, prefix: str) -> Level:
    """List one level below `root`; see `ObjectReader.list_level`."""
    if not is_text(prefix):
        return Level([], [])
    folders, objects, cut = list[str](), list[Resource](), len(root)
    for page in pages(options, bucket, root + prefix, delimiter="/"):
        folders += page.prefixes
        objects += page.items
    _in_order(objects, "", root + prefix)
    return Level(
        sorted({folder[cut:] for folder in folders}), [info(item.name[cut:], item) for item in objects]
    )
