"""A store in this process's memory, shared by name; keys are exact.

Its import makes `memory://name/prefix` a URI of a store, in this process.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import pyarrow as pa

from dredge.errors import ConfigError, ConflictError, NotFoundError
from dredge.storage.keys import is_text
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, Level, MaySend, ObjectInfo, SkippedName, always
from dredge.storage.opening import KINDS, Driver
from dredge.storage.schemes import DRIVERS
from dredge.storage.undo import ObjectVersion, Versioning, VersionReader
from lakefs_embedded.uploads import Uploads
from tests.support.memory_uploads import MemoryUploads
from tests.support.memory_versions import OlderVersions
from tests.support.stand_ins import can_be_stood_in

DRIVERS["memory"] = "memory"


def _driver() -> Driver:
    from tests.support.memory_driver import driver

    return driver()


KINDS["memory"] = _driver

CHUNK_BYTES = 1 << 20

type Infos = list[ObjectInfo]


@dataclass(slots=True)
class MemoryStore:
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)  # key to (content, time)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # gives the time of each write; tests set it
    lock: threading.RLock = field(default_factory=threading.RLock)
    # with versioning: earlier versions, by key
    older: OlderVersions | None = None
    page_keys: int = 0  # keys that a page of a listing has; 0 is `rows_of_a_page`

    @can_be_stood_in
    def write(self, key: str, data: bytes, last_modified: datetime | None = None) -> None:
        with self.lock:
            if self.older is not None and key in self.objects:
                self.older.supersede(key, *self.objects[key])
            self.objects[key] = (bytes(data), last_modified or self.clock())
            if self.older is not None:
                self.older.written(key)

    @can_be_stood_in
    def remove(self, key: str) -> str | None:
        with self.lock:
            if self.older is None:
                del self.objects[key]
                return None
            if key in self.objects:
                self.older.supersede(key, *self.objects.pop(key))
            return self.older.mark(key, self.clock())

    def keys_from(self, prefix: str, after: str = "") -> Iterable[str]:
        return sorted(key for key in self.objects if key.startswith(prefix) and key > after)

    def versioning(self) -> Versioning:
        return "off" if self.older is None else "suspended" if self.older.suspended else "enabled"

    def all_versions(self, key: str) -> list[ObjectVersion]:
        with self.lock:
            return [] if self.older is None else self.older.versions(key, self.objects.get(key))


class Content(NamedTuple):
    data: bytes
    modified: datetime

    @property
    def etag(self) -> str:
        return etag_of(self.data)


_stores: dict[str, MemoryStore] = {}
_stores_lock = threading.Lock()


def memory_store(name: str) -> MemoryStore:
    store = _stores.get(name)
    if store is None:
        with _stores_lock:
            store = _stores.setdefault(name, MemoryStore())
    return store


def forget_memory_store(name: str) -> None:
    with _stores_lock:
        _stores.pop(name, None)


@can_be_stood_in
def etag_of(data: bytes) -> str:
    return _md5(data)


@lru_cache(maxsize=4096)
def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@can_be_stood_in
def rows_of_a_page() -> int:
    return 8192


class Located:
    """A place in a memory store. Every request passes `_call`."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """The common prefix of the keys, without a trailing slash."""
        return self._location.uri

    @property
    def _store(self) -> Any:
        return memory_store(self._location.bucket)

    def _call[T](self, name: str, key: str, deed: Callable[[], T]) -> T:
        return deed()


class MemoryReader(Located):
    is_remote = True

    @can_be_stood_in
    def stat(self, key: str) -> ObjectInfo:
        """Look one object up; raises NotFoundError."""
        return self._call("stat", key, lambda: self._info(key))

    @can_be_stood_in
    def get(self, key: str) -> bytes:
        """Read one object whole; raises NotFoundError."""
        return self._call("get", key, lambda: self._find(key).data)

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return ((key, self.get(key)) for key in keys)

    @can_be_stood_in
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer only where the object ends."""
        return self._call("get_range", key, lambda: self._find(key).data[start : start + length])

    @can_be_stood_in
    def open_read(self, key: str, start: int = 0, length: int | None = None) -> MemoryStream:
        def opened() -> MemoryStream:
            data = self._find(key).data
            end = len(data) if length is None else start + length
            return MemoryStream(data[start:end], self._info(key))

        return self._call("open_read", key, opened)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List in key order, page by page; see `ObjectReader.list`."""
        after, rows = start_after, self._store.page_keys or rows_of_a_page()
        while True:
            page = self._call("list", prefix, partial(self._page, prefix, after, stop_before, rows))
            if page:
                yield batch_of(page)
            if len(page) < rows:
                return
            after = page[-1].key

    @can_be_stood_in
    def list_level(self, prefix: str = "") -> Level:
        return self._call("list_level", prefix, lambda: self._level(prefix))

    def _page(self, prefix: str, after: str, before: str, rows: int) -> Infos:
        found: Infos = []
        with self._store.lock:
            for name in self._store.keys_from(self._root + prefix, self._root + after if after else ""):
                key = name.removeprefix(self._root)
                if len(found) == rows or (before and key >= before):
                    break
                found.append(self._info(key))
        return found

    def _level(self, prefix: str) -> Level:
        level = Level([], [])
        for key in self._store.keys_from(self._root + prefix):
            name, slash, _ = key.removeprefix(self._root + prefix).partition("/")
            if not slash:
                level.objects.append(self._info(prefix + name))
            elif level.folders[-1:] != [prefix + name + "/"]:
                level.folders.append(prefix + name + "/")
        return level

    def _info(self, key: str) -> ObjectInfo:
        found = self._find(key)
        return ObjectInfo(key, len(found.data), found.modified, found.etag)

    def _find(self, key: str) -> Any:
        try:
            return self._content(self._store.objects[self._root + key])
        except KeyError:
            raise NotFoundError(f"no object {key!r} in {self.uri}") from None

    def _content(self, found: tuple[bytes, datetime]) -> Any:
        return Content(*found)


def batch_of(infos: Sequence[ObjectInfo]) -> pa.RecordBatch:
    columns = {
        "key": [i.key for i in infos],
        "size": [i.size for i in infos],
        "last_modified": [i.last_modified for i in infos],
        "etag": [i.etag for i in infos],
    }
    return pa.RecordBatch.from_pydict(columns, schema=LISTING_SCHEMA)


class MemoryStream:
    """An object's bytes, in pieces like any other store's."""

    def __init__(self, data: bytes, info: ObjectInfo) -> None:
        self._data = data
        self.info = info

    def __iter__(self) -> Iterator[bytes]:
        for at in range(0, len(self._data), CHUNK_BYTES):
            yield self._data[at : at + CHUNK_BYTES]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing."""


class MemoryWriter(MemoryReader):
    def put(self, key: str, data: bytes) -> str | None:
        return self._call("put", key, lambda: self._write(key, data).etag)

    @can_be_stood_in
    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._call("put_if_absent", key, lambda: self._write(key, data, if_absent=True).etag)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object with the given `etag`."""
        return self._call("put_if_match", key, lambda: self._write(key, data, if_match=etag).etag)

    @can_be_stood_in
    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        data = b"".join(chunks)
        return self._call("put_stream", key, lambda: self._write(key, data, if_absent=if_absent))

    def copy(self, source: str, target: str) -> ObjectInfo:
        return self._call("copy", target, lambda: self._write(target, self._find(source).data))

    def uploads(self) -> Uploads:
        return MemoryUploads(self, self._store.clock)

    def _write(
        self, key: str, data: bytes, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        if not key or not is_text(key):
            raise ConfigError(
                f"{key!r} cannot be the name of an object below {self.uri}; nothing was written"
            )
        with self._store.lock:
            is_there = self._root + key in self._store.objects
            if if_absent and is_there:
                raise ConflictError(f"{key!r} exists already; nothing was written")
            if if_match is not None and not (is_there and self._find(key).etag == if_match):
                raise ConflictError(f"{key!r} is not the version that was expected; nothing was written")
            self._store.write(self._root + key, data)
            return self._info(key)


class MemoryDeleter(Located):
    @can_be_stood_in
    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        if not may_send():
            return [DeleteOutcome(key, "failed", NOT_SENT) for key in keys]
        outcomes: dict[str, DeleteOutcome] = {}
        store = self._store
        with store.lock:
            for key in dict.fromkeys(keys):
                if not key or not is_text(key):
                    outcomes[key] = DeleteOutcome(key, "not_addressable")
                    continue
                try:
                    marker = store.remove(self._root + key)
                except KeyError:
                    outcomes[key] = DeleteOutcome(key, "missing")
                else:
                    outcomes[key] = DeleteOutcome(key, "deleted", version_id=marker)
        return [outcomes[key] for key in keys]


class MemoryVersions(Located, VersionReader):
    """Reads the versions of a memory store; see `dredge.storage.undo.VersionReader`."""

    @can_be_stood_in
    def versioning(self, probe_uri: str = "") -> Versioning:
        return self._call("versioning", "", lambda: self._store.versioning())

    @can_be_stood_in
    def versions(self, key: str) -> list[ObjectVersion]:
        return self._call("versions", key, lambda: self._store.all_versions(self._root + key))


class MemoryVersionDeleter(Located):
    """Deletes versions of a memory store; see `dredge.storage.undo.VersionDeleter`."""

    @can_be_stood_in
    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        if not may_send():
            return [DeleteOutcome(key, "failed", NOT_SENT) for key, _ in wanted]
        return [self._delete(key, version_id) for key, version_id in wanted]

    @can_be_stood_in
    def _delete(self, key: str, version_id: str) -> DeleteOutcome:
        store, name = self._store, self._root + key
        with store.lock:
            if store.older is None:
                return DeleteOutcome(key, "missing")
            if name in store.objects and store.older.forget_current(name, version_id):
                del store.objects[name]
            store.older.delete(name, version_id)
            revived = None if name in store.objects else store.older.revived(name)
            if revived is not None and revived.data is not None:
                store.objects[name] = (revived.data, revived.last_modified)
            return DeleteOutcome(key, "deleted", version_id=version_id)
