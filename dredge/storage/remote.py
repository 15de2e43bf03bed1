"""Parts of the drivers of S3, Google Cloud Storage and Azure."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, ConflictError, DredgeError, FormatError, NotFoundError
from dredge.storage import model
from dredge.storage.listing_schema import LISTING_SCHEMA, STORAGE_CLASS
from dredge.storage.location import Location
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import get_ahead

CHUNK_BYTES = 1 << 20
# End of the id of a marker in stores without delete markers; the rest is the id of the newest version.
MARKER = "-deleted"
# Parts of an upload grow every so many parts, so that 10,000 of them reach the largest object of a store.
_PART_BYTES, _PART_BYTES_MAX, _GROWS_EVERY = 8 << 20, 512 << 20, 1000


class ProcessCache:
    """Clients of this process, built at first use and shared by its threads.

    A forked child starts with an empty cache: it must not use the parent's sockets, and its locks may be held by
    threads that the child does not have. The lock also serialises imports of the SDKs, whose modules import each other
    in circles.
    """

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Drop all clients."""
        self.lock = threading.RLock()
        self._built: dict[Any, Any] = {}

    def get[V](self, key: Any, build: Callable[[], V]) -> V:
        """The client of a key."""
        lock, built = self.lock, self._built
        with lock:
            if key not in built:
                built[key] = build()
            found: V = built[key]
            return found


class Place:
    """A folder of a bucket or container."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._bucket = location.bucket
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """The folder, without a trailing slash."""
        return self._location.uri

    @property
    def options(self) -> StorageOptions:
        """Options to reach it."""
        return self._options


class Named(Place, ABC):
    """A folder whose objects are asked for by their keys."""

    @abstractmethod
    def _can_name(self, key: str) -> bool:
        """Whether the store can be asked for exactly this key."""

    def _name(self, key: str) -> str:
        """The whole name of an object to read; raises NotFoundError."""
        if not self._can_name(key):
            raise NotFoundError(f"{key!r} cannot be the name of an object below {self.uri}")
        return self._root + key

    def _target(self, key: str) -> str:
        """The whole name of an object to write; raises ConfigError."""
        if not self._can_name(key):
            raise ConfigError(
                f"{key!r} cannot be the name of an object below {self.uri}; nothing was written"
            )
        return self._root + key


class MarkerDeleter(Place, ABC):
    """Removes the markers of stores without delete markers, by copying the version below back; see `VersionDeleter`."""

    def delete(
        self, wanted: Sequence[tuple[str, str]], may_send: model.MaySend = model.always
    ) -> list[model.DeleteOutcome]:
        """Restore each object, if its key is free."""
        return [self._restored(key, version, may_send) for key, version in wanted]

    @abstractmethod
    def _restore(self, key: str, version: str) -> None:
        """Copy a version to its key; raises ConflictError if the key is in use."""

    def _restored(self, key: str, marker: str, may_send: model.MaySend) -> model.DeleteOutcome:
        if not may_send():
            return model.DeleteOutcome(key, "failed", model.NOT_SENT)
        try:
            self._restore(key, marker.removesuffix(MARKER))
        except (NotFoundError, ConflictError):
            return model.DeleteOutcome(key, "missing")
        except DredgeError as error:
            return model.DeleteOutcome(key, "failed", error.kind, str(error))
        return model.DeleteOutcome(key, "deleted", version_id=marker)


class RemoteReader(Named, model.ObjectReader):
    """The methods of an `ObjectReader` that follow from others."""

    is_remote = True

    @abstractmethod
    def _list(self, prefix: str, start_after: str, stop_before: str) -> Iterator[pa.RecordBatch]:
        """List in key order."""

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: model.SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List in key order; see `ObjectReader.list`."""
        return self._list(prefix, start_after, stop_before)

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Read many objects in order; see `ObjectReader.get_many`."""
        return get_ahead(self.get, keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer at the end of the object."""
        if length <= 0:
            return b""
        with self.open_read(key, start, length) as stream:
            return b"".join(stream)


class BaseCopier:
    """Copies between two folders, on the server; see `dredge.storage.undo.ObjectCopier`."""

    def __init__(self, source: Location, target: Location, options: StorageOptions) -> None:
        self._source = source
        self._target = target
        self._options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source.uri!r}, {self._target.uri!r})"


class OpenObject:
    """An `ObjectStream` over an iterator of bytes; `close` gives the connection or file back."""

    def __init__(
        self, info: model.ObjectInfo, chunks: Iterable[bytes] = (), close: Callable[[], object] = lambda: None
    ) -> None:
        self.info = info
        self._chunks = iter(chunks)
        self._close = close

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """See `ObjectStream.close`."""
        self._close()


def split_parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of an upload; one part is in memory at a time."""
    buffer, sent, size = bytearray(), 0, _PART_BYTES
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
            sent += 1
            if sent % _GROWS_EVERY == 0:
                size = min(size * 2, _PART_BYTES_MAX)
    if buffer:
        yield bytes(buffer)


def check_order(keys: pa.Array, last: str, what: str) -> str:
    """Check that the keys of a page ascend strictly after the last key; returns the new last key.

    Listings of key ranges side by side are complete only if each is in byte order.
    """
    if not len(keys):
        return last
    first = keys[0].as_py()
    ascending = pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py()
    if not ascending or (last and first <= last):
        raise FormatError(
            f"{what}: the store does not list keys in byte order, so a listing in parallel parts could miss keys or"
            " have them twice. The listing is not used."
        )
    return str(keys[-1].as_py())


def cut_root(rows: pa.RecordBatch, root: str) -> pa.RecordBatch:
    """Rows with keys relative to a root; raises FormatError for keys outside it."""
    if not root or not rows.num_rows:
        return rows
    keys = rows.column(0)
    if not pc.all(pc.starts_with(keys, root), min_count=0).as_py():
        raise FormatError(f"the store listed keys outside the prefix {root!r}")
    return rows.set_column(0, LISTING_SCHEMA.field(0), pc.utf8_slice_codeunits(keys, len(root)))


def cut_bounds(rows: pa.RecordBatch, start_after: str, stop_before: str) -> pa.RecordBatch:
    """Rows with keys between two bounds; "" is no bound."""
    if start_after:
        rows = rows.filter(pc.greater(rows.column(0), start_after))
    if stop_before:
        rows = rows.filter(pc.less(rows.column(0), stop_before))
    return rows


def infos_of(rows: pa.RecordBatch) -> list[model.ObjectInfo]:
    """Rows of `LISTING_SCHEMA_WITH_CLASS` as values."""
    return [
        model.ObjectInfo(
            row["key"], row["size"], row["last_modified"].astimezone(UTC), row["etag"], row[STORAGE_CLASS]
        )
        for row in rows.to_pylist()
    ]
