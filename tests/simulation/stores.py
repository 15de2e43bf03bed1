"""Object stores of a history, behind `memory://` URIs: buckets with a clock, a kind of ETag and other habits.

The readers, writers and deleters here are returned by `dredge.storage.open_reader` and its sisters while a history runs
(see machine.py); all of a bucket's calls pass a door. They keep S3's promises (whole writes, strong consistency,
conditional puts, listings in key order page by page) and share its habits (buckets.py): times in whole seconds, a
multipart object is as old as its upload's beginning, and an ETag is an MD5 only without encryption and parts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from dredge.errors import ConfigError, ConflictError, NotFoundError, UnavailableError
from dredge.kv.rows import RowReader
from dredge.storage.keys import is_text
from dredge.storage.location import Location
from dredge.storage.model import (
    NOT_SENT,
    STORE_HOLD,
    DeleteOutcome,
    Level,
    MaySend,
    ObjectInfo,
    SkippedName,
    always,
)
from dredge.storage.undo import ObjectVersion, Versioning, VersionReader
from lakefs_embedded.uploads import Completed, Uploads
from tests.simulation.buckets import Bucket, Stored
from tests.simulation.clock import Clock
from tests.simulation.doors import Doors, answer_lost, not_done
from tests.simulation.noise import mix, stable_hash, unit
from tests.simulation.scheduler import Process
from tests.support.memory_store import MemoryStream, batch_of
from tests.support.memory_uploads import MemoryUploads

type Infos = list[ObjectInfo]


@dataclass
class Stores:
    """All buckets of a history."""

    doors: Doors
    buckets: dict[str, Bucket] = field(default_factory=dict)
    # the key-value store for a collector; None without access
    rows: RowReader | None = None

    def bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            self.buckets[name] = Bucket(name, Clock(lambda: self.doors.scheduler.now, whole_seconds=True))
        return self.buckets[name]


_current: list[Stores] = []


def current_rows(*_url: object, **_more: object) -> RowReader:
    """The key-value store of the running history."""
    rows = _current[-1].rows
    assert rows is not None, "no run was given a way to the key-value store"
    return rows


@contextmanager
def using_stores(stores: Stores) -> Iterator[None]:
    """Let `memory://` URIs mean these buckets."""
    _current.append(stores)
    try:
        yield
    finally:
        _current.remove(stores)


def _denied(_deed: object) -> Any:
    raise ConfigError("GET: AccessDenied. Check the key pair and its policy")


def _repeated(deed: Callable[[], Any]) -> Any:
    deed()
    raise ConflictError("PreconditionFailed")


WIRE = "wire"
"""Role of the process of a late request, after its client has taken it for lost."""
LATEST = 60.0
"""Maximum delay of a request taken for lost."""


def _again(deed: Callable[[], Any]) -> Any:
    scheduler = _current[-1].doors.scheduler
    assert scheduler.current is not None, "weather strikes actors"
    process, wire = scheduler.current.process, Process(WIRE, scheduler)
    seconds = LATEST * unit(mix(mix(process.hash, process.calls), stable_hash("put arrives again")))
    scheduler.spawn(WIRE, deed, wire, scheduler.now + seconds)
    return deed()


FAULTS: dict[str, Any] = {
    "store down": not_done("store"),
    "disk full": not_done("the disk is full"),
    "store answer lost": answer_lost("store"),
    "store repeated a put": _repeated,
    "put arrives again": _again,
    "unreadable object": _denied,
}


class SimReader:
    """See `ObjectReader`."""

    is_remote = True

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._location.uri

    @property
    def _bucket(self) -> Bucket:
        return _current[-1].bucket(self._location.bucket)

    def stat(self, key: str) -> ObjectInfo:
        return self._call("stat", key, lambda: self._info(key))

    def get(self, key: str) -> bytes:
        return self._call("get", key, lambda: self._find(key).data)

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        return ((key, self.get(key)) for key in keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range", key, lambda: self._find(key).data[start : start + length])

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
        after = start_after
        while True:
            page = self._call("list", prefix, partial(self._page, prefix, after, stop_before))
            if page:
                yield batch_of(page)
            if len(page) < self._bucket.page_keys:
                return
            after = page[-1].key

    def list_level(self, prefix: str = "") -> Level:
        return self._call("list_level", prefix, lambda: self._level(prefix))

    def _page(self, prefix: str, after: str, before: str) -> Infos:
        keys, first = self._bucket.keys, self._root + prefix
        at = bisect_left(keys, first)
        if after:
            at = max(at, bisect_right(keys, self._root + after))
        found: Infos = []
        while at < len(keys) and keys[at].startswith(first) and len(found) < self._bucket.page_keys:
            key = keys[at].removeprefix(self._root)
            if before and key >= before:
                break
            found.append(self._info(key))
            at += 1
        return found

    def _level(self, prefix: str) -> Level:
        level = Level([], [])
        keys, first = self._bucket.keys, self._root + prefix
        for at in range(bisect_left(keys, first), len(keys)):
            if not keys[at].startswith(first):
                break
            name, slash, _ = keys[at].removeprefix(first).partition("/")
            if not slash:
                level.objects.append(self._info(prefix + name))
            elif level.folders[-1:] != [prefix + name + "/"]:
                level.folders.append(prefix + name + "/")
        return level

    def _info(self, key: str) -> ObjectInfo:
        stored = self._find(key)
        return ObjectInfo(key, len(stored.data), stored.modified, stored.etag)

    def _find(self, key: str) -> Stored:
        try:
            return self._bucket.objects[self._root + key]
        except KeyError:
            raise NotFoundError(f"no object {key!r} in {self.uri}") from None

    def _call[T](self, name: str, key: str, deed: Callable[[], T], faults: Mapping[str, Any] = FAULTS) -> T:
        stores = _current[-1]
        locked = stores.bucket(self._location.bucket).locked
        if locked and name in locked.get(self._root + key, ()) and stores.doors.scheduler.current is not None:
            deed = partial(_denied, deed)
        found: T = stores.doors.call("store", name, deed, faults, f"{self._location.root} {key}")
        return found


class SimWriter(SimReader):
    """See `ObjectWriter`."""

    def put(self, key: str, data: bytes) -> str | None:
        return self._call("put", key, lambda: self._write(key, data).etag)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._call("put_if_absent", key, lambda: self._write(key, data, if_absent=True).etag)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        return self._call("put_if_match", key, lambda: self._write(key, data, if_match=etag).etag)

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        data = b"".join(chunks)
        return self._call("put_stream", key, lambda: self._write(key, data, if_absent=if_absent))

    def copy(self, source: str, target: str) -> ObjectInfo:
        return self._call("copy", target, lambda: self._write(target, self._find(source).data))

    def uploads(self) -> Uploads:
        return SimUploads(self)

    def _write(
        self, key: str, data: bytes, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        if not key or not is_text(key):
            raise ConfigError(f"{key!r} cannot be the name of an object below {self.uri}")
        present = self._bucket.objects.get(self._root + key)
        if if_absent and present is not None:
            raise ConflictError(f"{key!r} exists already; nothing was written")
        if if_match is not None and (present is None or present.etag != if_match):
            raise ConflictError(f"{key!r} is not the version that was expected; nothing was written")
        self._bucket.put(self._root + key, data)
        return self._info(key)


class SimUploads(MemoryUploads):
    """Multipart uploads: the object is as old as its upload's beginning, and its ETag counts parts."""

    def __init__(self, writer: SimWriter) -> None:
        super().__init__(writer, writer._bucket.clock)
        self._sim = writer

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        begun = next((each.begun for each in self.open() if each.upload_id == upload_id), None)
        done = super().complete(key, upload_id, parts)
        bucket, name = self._sim._bucket, self._sim._root + key
        # It counts parts however the rest of it is made.
        etag = done.etag if bucket.etags == "md5" else f"{bucket.objects[name].etag}-{len(parts)}"
        bucket.put(name, bucket.objects[name].data, begun, etag)
        return Completed(self._sim._info(key), done.etag)


class SimDeleter:
    """See `ObjectDeleter`."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"SimDeleter({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        # Like S3's: keys with an error of the store are sent again, each time after a check of `may_send`; then the
        # remaining ones have failed.
        outcomes: dict[str, DeleteOutcome] = {}
        for _ in range(2):
            left = [key for key in dict.fromkeys(keys) if key not in outcomes]
            if not left:
                break
            if not may_send():
                outcomes |= {key: DeleteOutcome(key, "failed", NOT_SENT) for key in left}
                break
            try:
                outcomes |= {found.key: found for found in self._send(left)}
            except UnavailableError:
                continue
        failed = {key: DeleteOutcome(key, "failed", "SlowDown") for key in keys}
        return [(failed | outcomes)[key] for key in keys]

    def _send(self, keys: Sequence[str]) -> list[DeleteOutcome]:
        stores = _current[-1]
        bucket = stores.bucket(self._location.bucket)

        def remove(key: str) -> DeleteOutcome:
            if not key or not is_text(key):
                return DeleteOutcome(key, "not_addressable")
            if self._root + key in bucket.on_hold:
                return DeleteOutcome(key, "kept", STORE_HOLD, "the object is on hold")
            return DeleteOutcome(key, "deleted", version_id=bucket.remove(self._root + key))

        what = f"{self._location.root} {' '.join(keys)}"
        faults = _some_fail(keys, lambda number: remove(keys[number]))
        return stores.doors.call("store", "delete", lambda: [remove(key) for key in keys], faults, what)


def _some_fail(keys: Sequence[str], remove: Callable[[int], DeleteOutcome]) -> dict[str, Any]:

    def some(after_all: bool) -> list[DeleteOutcome]:
        done: list[DeleteOutcome] = []
        for number, key in enumerate(keys):
            if number % 2 == 0 or after_all:
                done.append(remove(number))
            if number % 2:
                done[number:] = [DeleteOutcome(key, "failed", "AccessDenied", "no")]
        return done

    return FAULTS | {
        "some keys fail": lambda _deed: some(after_all=False),
        "some keys fail after all": lambda _deed: some(after_all=True),
    }


class SimVersions(VersionReader):
    """See `VersionReader`."""

    def __init__(self, location: Location) -> None:
        self._reader = SimReader(location)
        self._root = self._reader._root

    def versioning(self, probe_uri: str = "") -> Versioning:
        return self._reader._call(
            "versioning", "", lambda: "enabled" if self._reader._bucket.versioned else "off"
        )

    def versions(self, key: str) -> list[ObjectVersion]:
        def found() -> list[ObjectVersion]:
            return [
                ObjectVersion(
                    version_id=each.version or "null",
                    is_latest=number == 0,
                    is_marker=each.is_marker,
                    size=len(each.data),
                    etag=None if each.is_marker else each.etag,
                    last_modified=each.modified,
                )
                for number, each in enumerate(self._reader._bucket.versions(self._root + key))
            ]

        return self._reader._call("versions", key, found)


class SimVersionDeleter:
    """See `VersionDeleter`."""

    def __init__(self, location: Location) -> None:
        self._reader = SimReader(location)
        self._root = self._reader._root

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        if not may_send():
            return [DeleteOutcome(key, "failed", NOT_SENT) for key, _ in wanted]

        keys = [key for key, _ in wanted]

        def purge(number: int) -> DeleteOutcome:
            key, version = wanted[number]
            self._reader._bucket.purge(self._root + key, version)
            return DeleteOutcome(key, "deleted", version_id=version)

        def purge_all() -> list[DeleteOutcome]:
            return [purge(number) for number in range(len(wanted))]

        try:
            return self._reader._call("delete_versions", " ".join(keys), purge_all, _some_fail(keys, purge))
        except UnavailableError as error:
            return [DeleteOutcome(key, "failed", "SlowDown", str(error)) for key in keys]
