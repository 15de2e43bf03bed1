"""Entries, from requests to the stored form and back to responses; names and bytes of their objects.

A new object is `data/<slice>/<name>`. A slice is a descending xid, so newer slices sort first; a name is an ascending
one. A slice is closed after a number of names or a time, and a path provider has one open slice at a time. So listings
can go slice by slice, and an old slice gets no new names.

Source: design "Uncommitted garbage collector", objects path conventions; lakeFS pkg/upload/path_provider.go.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from dredge.errors import NotFoundError
from dredge.lakefs.files.addresses import AddressType, canonical_address, reworded
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from dredge.storage.schemes import canonical_scheme
from dredge.xid import new_descending_xid, new_xid
from lakefs_embedded.catalog.model import Namespaces
from lakefs_embedded.catalog.results import ObjectStats
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import DataNotFoundError, InvalidValueError

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


Content = bytes | BinaryIO | Iterable[bytes]
"""Uploaded content: the bytes, a file opened for reading, or chunks."""

_CHUNK_BYTES = 1 << 20


class ObjectBytes:
    """Reads and writes the bytes of entries."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    def locate(self, repository: Repository, entry: Entry) -> tuple[ObjectWriter, str]:
        """Find the store and the key of an entry's bytes."""
        objects = self._namespaces.of(repository).objects
        return locate(repository, entry, objects, self._namespaces.open)

    def write(self, repository: Repository, address: str, content: Content) -> tuple[str, int]:
        """Write bytes to an address of the repository's namespace. Returns their hex MD5 and number."""
        objects = self._namespaces.of(repository).objects
        if isinstance(content, bytes):
            objects.put(address, content)
            return hashlib.md5(content, usedforsecurity=False).hexdigest(), len(content)
        digest = hashlib.md5(usedforsecurity=False)
        size = 0

        def pass_on(chunks: Iterable[bytes]) -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        objects.put_stream(address, pass_on(_chunks(content)))
        return digest.hexdigest(), size

    def copy(self, repository: Repository, source: Entry, address: str) -> None:
        """Copy an entry's bytes to an address in the repository's namespace."""
        objects = self._namespaces.of(repository).objects
        holder, key = self.locate(repository, source)
        try:
            if holder is objects:
                objects.copy(key, address)
                return
            with holder.open_read(key) as stream:
                objects.put_stream(address, stream)
        except NotFoundError:
            raise DataNotFoundError from None


def _chunks(content: BinaryIO | Iterable[bytes]) -> Iterable[bytes]:
    if hasattr(content, "read"):
        return iter(lambda: content.read(_CHUNK_BYTES), b"")
    return content


DATA_PREFIX = "data/"
SLICE_AGE_MAX = timedelta(hours=1)


class PathProvider:
    """Makes names of new objects, at most `names_max` in a slice; safe for use from many threads."""

    def __init__(self, clock: Callable[[], datetime], names_max: int) -> None:
        self._clock = clock
        self._names_max = names_max
        self._lock = threading.Lock()
        self._slice = ""
        self._began: datetime | None = None
        self._names = 0

    def new_address(self) -> str:
        """Make a unique address, relative to the storage namespace."""
        now = self._clock()
        with self._lock:
            if self._began is None or self._names >= self._names_max or now - self._began >= SLICE_AGE_MAX:
                self._slice, self._began, self._names = new_descending_xid(now), now, 0
            self._names += 1
            return f"{DATA_PREFIX}{self._slice}/{new_xid(now)}"
