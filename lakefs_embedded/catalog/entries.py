"""Entries: from requests to the stored form, and back to responses."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from dredge.lakefs.files.addresses import AddressType, canonical_address, reworded
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from dredge.storage.schemes import canonical_scheme
from lakefs_embedded.catalog.results import ObjectStats
from lakefs_embedded.catalog.slices import DATA_PREFIX
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import InvalidValueError

DEFAULT_CONTENT_TYPE = "application/octet-stream"
"""Shown for an entry without a content type (imports), and stored without one in the request."""

_NO_URI = re.compile("[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})")


def path_bytes(text: str) -> bytes:
    """A path, prefix or offset as bytes, as in staging areas and ranges."""
    return text.encode("utf-8", "surrogateescape")


def path_text(path: bytes) -> str:
    """A stored path as text for the API; `path_bytes` is its inverse, even for invalid UTF-8."""
    return path.decode("utf-8", "surrogateescape")


def decode_entry(path: bytes, value: Value) -> Entry:
    """Read the entry of a path. Raises FormatError: the value is not an entry."""
    return Entry.decode(value.data, f"entry of {path!r}")


def full_address(repository: Repository, entry: Entry) -> str:
    """The URI of an entry's bytes: the namespace and a relative address, or a full one as parsed by the server.

    On a local folder a full address is a path, and is returned unchanged.
    """
    uri = repository.storage_namespace
    key = canonical_address(entry.address, entry.address_type, uri)
    if entry.address_type == AddressType.FULL or key is None:
        return entry.address if canonical_scheme(uri.partition(":")[0]) == "file" else reworded(entry.address)
    return f"{uri.rstrip('/')}/{key}"


def object_stats(repository: Repository, path: str, entry: Entry) -> ObjectStats:
    """The API's form of an entry."""
    return ObjectStats(
        path=path,
        physical_address=full_address(repository, entry),
        checksum=entry.etag,
        size_bytes=entry.size,
        mtime=entry.last_modified,
        metadata=entry.metadata,
        content_type=entry.content_type or DEFAULT_CONTENT_TYPE,
    )


def prefix_stats(path: str) -> ObjectStats:
    """The API's form of a common prefix."""
    return ObjectStats(path=path, path_type="common_prefix")


def address_to_keep(repository: Repository, address: str) -> tuple[str, AddressType]:
    """The stored form of an object's URI: relative if below the namespace's `data/`, else full, as given.

    As on a real server the strings are compared: `s3a://` and `s3://` are different places here.
    """
    if "://" not in address or _NO_URI.search(address):
        raise InvalidValueError(f"could not parse URI {address!r}: invalid value")
    prefix = repository.storage_namespace.rstrip("/") + "/"
    if address.startswith(prefix + DATA_PREFIX):
        return address.removeprefix(prefix), AddressType.RELATIVE
    return address, AddressType.FULL


def locate(
    repository: Repository,
    entry: Entry,
    objects: ObjectWriter,
    open_folder: Callable[[str], ObjectWriter],
) -> tuple[ObjectWriter, str]:
    """Find store and key of an entry's bytes; `open_folder` opens the folder of an address outside the namespace."""
    key = canonical_address(entry.address, entry.address_type, repository.storage_namespace)
    if key is not None:
        return objects, key
    folder, _, name = entry.address.rpartition("/")
    return open_folder(folder), name


def entry_time(now: datetime, mtime: datetime | None) -> datetime:
    """The time of a new entry: the caller's if given, else now."""
    return now if mtime is None else mtime.astimezone(UTC)
