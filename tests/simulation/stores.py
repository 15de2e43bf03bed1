"""Object stores of a history, behind `memory://` URIs: buckets with a clock, a kind of ETag and other habits.

The readers, writers and deleters here are returned by `dredge.storage.open_reader` and its sisters while a history runs
(see machine.py); all of a bucket's calls pass a door. They keep S3's promises (whole writes, strong consistency,
conditional puts, listings in key order page by page) and share its habits (buckets.py): times in whole seconds, a
multipart object is as old as its upload's beginning, and an ETag is an MD5 only without encryption and parts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dredge.errors import ConfigError, ConflictError, UnavailableError
from dredge.kv.rows import RowReader
from dredge.storage.keys import is_text
from dredge.storage.model import (
    NOT_SENT,
    STORE_HOLD,
    DeleteOutcome,
    MaySend,
    ObjectInfo,
    always,
)
from lakefs_embedded.uploads import Completed, Uploads
from tests.simulation.buckets import Bucket, Stored
from tests.simulation.clock import Clock
from tests.simulation.doors import Doors, answer_lost, not_done
from tests.simulation.noise import mix, stable_hash, unit
from tests.simulation.scheduler import Process
from tests.support.memory_store import (
    Located,
    MemoryDeleter,
    MemoryReader,
    MemoryVersionDeleter,
    MemoryVersions,
    MemoryWriter,
)
from tests.support.memory_uploads import MemoryUploads

type Infos = list[ObjectInfo]


@dataclass
class Stores:
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


class Sim(Located):
    @property
    def _store(self) -> Bucket:
        return _current[-1].bucket(self._location.bucket)

    def _call[T](self, name: str, key: str, deed: Callable[[], T], faults: Mapping[str, Any] = FAULTS) -> T:
        stores = _current[-1]
        locked = stores.bucket(self._location.bucket).locked
        if locked and name in locked.get(self._root + key, ()) and stores.doors.scheduler.current is not None:
            deed = partial(_denied, deed)
        found: T = stores.doors.call("store", name, deed, faults, f"{self._location.root} {key}")
        return found

    def _content(self, found: Stored) -> Stored:
        return found


class SimReader(Sim, MemoryReader):
    """See `ObjectReader`."""


class SimWriter(Sim, MemoryWriter):
    """See `ObjectWriter`."""

    def uploads(self) -> Uploads:
        return SimUploads(self)


class SimUploads(MemoryUploads):
    """Multipart uploads: the object is as old as its upload's beginning, and its ETag counts parts."""

    def __init__(self, writer: SimWriter) -> None:
        super().__init__(writer, writer._store.clock)
        self._sim = writer

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        opened = self.opened(upload_id)
        done = super().complete(key, upload_id, parts)
        bucket, name = self._sim._store, self._sim._root + key
        # It counts parts however the rest of it is made.
        etag = done.etag if bucket.etags == "md5" else f"{bucket.objects[name].etag}-{len(parts)}"
        bucket.write(name, bucket.objects[name].data, opened and opened[1], etag)
        return Completed(self._sim._info(key), done.etag)


class SimDeleter(Sim, MemoryDeleter):
    """See `ObjectDeleter`."""

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
        bucket = self._store

        def remove(key: str) -> DeleteOutcome:
            if not key or not is_text(key):
                return DeleteOutcome(key, "not_addressable")
            if self._root + key in bucket.on_hold:
                return DeleteOutcome(key, "kept", STORE_HOLD, "the object is on hold")
            return DeleteOutcome(key, "deleted", version_id=bucket.remove(self._root + key))

        faults = _some_fail(keys, lambda number: remove(keys[number]))
        return self._call("delete", " ".join(keys), lambda: [remove(key) for key in keys], faults)


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


class SimVersions(Sim, MemoryVersions):
    """See `VersionReader`."""


class SimVersionDeleter(Sim, MemoryVersionDeleter):
    """See `VersionDeleter`."""

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        if not may_send():
            return [DeleteOutcome(key, "failed", NOT_SENT) for key, _ in wanted]

        keys = [key for key, _ in wanted]

        def purge(number: int) -> DeleteOutcome:
            key, version = wanted[number]
            self._store.purge(self._root + key, version)
            return DeleteOutcome(key, "deleted", version_id=version)

        def purge_all() -> list[DeleteOutcome]:
            return [purge(number) for number in range(len(wanted))]

        try:
            return self._call("delete_versions", " ".join(keys), purge_all, _some_fail(keys, purge))
        except UnavailableError as error:
            return [DeleteOutcome(key, "failed", "SlowDown", str(error)) for key in keys]
