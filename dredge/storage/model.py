"""Types of object storage. A reader cannot write, a writer cannot delete, and a deleter can only delete; each is a
separate class, so signatures show the rights.

Keys are relative to the opened `uri`, raw text without normalisation: `a//b`, `a/./b` and `dir/` are three keys. For a
key that a store cannot address exactly, the outcome is `not_addressable`, and no request is sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

from msgspec import Struct

from dredge.errors import ConfigError, NotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

type Outcome = Literal["deleted", "missing", "kept", "failed", "not_addressable"]


class ObjectInfo(Struct, frozen=True):
    """Description of an object."""

    key: str
    size: int
    last_modified: datetime  # by the store's clock, aware UTC
    etag: str | None  # without quotes; in some stores a hash of the content (S3, for objects of one request)
    storage_class: str | None = None


class Level(Struct, frozen=True):
    """One level of a store, in key order: folders (each ends with "/") and objects."""

    folders: list[str]
    objects: list[ObjectInfo]


class DeleteOutcome(Struct, frozen=True):
    """The outcome of one key."""

    key: str
    # "deleted" (confirmed by the store, in S3 also for absent keys; or missing after a lost answer),
    # "missing" (by a clear answer), "kept" (only by `ListedDeleter`), "failed" (the object may exist) or
    # "not_addressable" (the store has no exact name for the key; no request was sent)
    outcome: Outcome
    code: str | None = None  # the store's error code of failed keys; `CHANGED` or `STORE_HOLD` of kept keys
    message: str | None = None  # of the store; for deleted keys its first answer, if that was in doubt
    version_id: str | None = None  # of the delete marker in a bucket with versions; None after a lost answer


type SkippedName = Callable[[str], None]
"""Called with a printable form of each listed name without a key."""


class ObjectStream(Protocol):
    """An open object, a context manager; its bytes come in chunks."""

    @property
    def info(self) -> ObjectInfo:
        """The object at the time of opening; `size` is that of the whole object."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def close(self) -> None:
        """Close the connection or file."""


class ObjectReader(Protocol):
    """Reads objects below one URI."""

    @property
    def uri(self) -> str:
        """The folder of the keys, without a trailing slash."""

    @property
    def is_remote(self) -> bool:
        """Whether a lookup is a request over a network."""

    def stat(self, key: str) -> ObjectInfo:
        """Describe an object; raises NotFoundError."""

    def get(self, key: str) -> bytes:
        """Read a whole object; raises NotFoundError."""

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Read many objects in the order of `keys`; raises the error of any key.

        At most `concurrency` objects are in memory in addition to the current one, or `AHEAD_BYTES` of small objects
        (`dredge.storage.parallel`).
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer at the end of the object."""

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> ObjectStream:
        """Open an object, or a part of it, for reading in chunks; raises NotFoundError."""

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List all keys with a prefix, recursively. `start_after`: only keys strictly greater (in bytes of UTF-8); ""
        is no bound. `stop_before`: only keys strictly smaller; "" is no bound. `on_skipped`: called for names that are
        no keys (see `SkippedName`); by default they are logged. Returns batches of `LISTING_SCHEMA`, none empty, all
        with or all without a column `STORAGE_CLASS`; in byte order of the keys where the store has it (S3, local and
        memory)."""

    def list_level(self, prefix: str = "") -> Level:
        """List the objects and folders between `prefix` and the next "/"."""


class ObjectWriter(ObjectReader, Protocol):
    """Reads and writes objects below one URI."""

    def put(self, key: str, data: bytes) -> str | None:
        """Write or replace an object, atomically; returns the etag."""

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Write an object if the key is free; raises ConflictError."""

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object with this `etag`; raises ConflictError for another one, or none."""

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """Write an object from chunks in bounded memory, atomically."""

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copy an object inside the store, replacing `target`; raises NotFoundError."""


type MaySend = Callable[[], bool]

CHANGED = "changed"
"""Code of a key with another object than the listed one."""
STORE_HOLD = "store_hold"
"""Code of a key on hold in the store, or under a retention policy."""
NOT_SENT = "NotSent"
"""Code of a key without permission for its request."""


def always() -> bool:
    """Permit every request."""
    return True


class ObjectDeleter(Protocol):
    """Deletes objects below one URI."""

    @property
    def uri(self) -> str:
        """The folder of the keys, without a trailing slash."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key by its exact name. `may_send`: called right before each request, after any wait; must not
        raise. After False nothing more is sent, and unsent keys have the code `NOT_SENT`. Returns one outcome per key,
        in order. Only an error of the whole request (such as a missing bucket) raises."""


@runtime_checkable
class ListedDeleter(ObjectDeleter, Protocol):
    """A deleter whose store deletes exactly the listed objects."""

    def delete_listed(self, objects: Sequence[ObjectInfo], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete objects unchanged since they were listed; otherwise like `delete`. `objects`: from a listing or lookup
        of this store; one without an etag is deleted by its key. Returns one outcome per object, in order; "kept" for a
        changed object, or one on hold in the store."""


def exists(reader: ObjectReader, key: str) -> bool:
    """Whether an object exists; a listing answers if the store refuses to describe it."""
    try:
        reader.stat(key)
    except NotFoundError:
        return False
    except ConfigError:  # access to this object is denied, or it is encrypted with another key
        folder = key[: key.rfind("/") + 1]
        return any(stretch.found.num_rows for stretch in find_neighbours(reader, folder, [key]))
    return True


PAGE_ROWS = 1000
LOOKS_PER_PAGE = 12
"""A page of a listing costs as much as this many lookups of single objects. Amazon S3 charges a page like 12.5 lookups,
and takes five to ten times as long; versitygw takes 80 times as long (21 ms of processor time, not 0.25)."""


class Stretch(Struct, frozen=True):
    """Pages of a listing, compared with names."""

    names: Sequence[str]  # wanted names up to the end of the pages, after those of the stretch before
    found: pa.RecordBatch
    listed: int


def find_neighbours(reader: ObjectReader, prefix: str, names: Sequence[str]) -> Iterator[Stretch]:
    """List from the first to the last of some names; every name is in one stretch. The caller may stop early. `names`:
    distinct, in byte order, at least one. Raises FormatError: this store cannot list between these names; single
    lookups may still work."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from dredge.storage.listing_schema import LISTING_SCHEMA

    first = 0
    # The first name itself must be listed too, so the listing starts after a name one character shorter.
    for batch in reader.list(prefix, names[0][:-1], names[-1] + "\0"):
        stop = bisect_right(names, batch["key"][-1].as_py(), first)
        asked = names[first:stop]
        there = pc.is_in(batch["key"], pa.array(asked, pa.string()))
        yield Stretch(asked, batch.filter(there), batch.num_rows)
        first = stop
    yield Stretch(names[first:], pa.RecordBatch.from_pylist([], LISTING_SCHEMA), 0)
