"""The nouns of object storage: what a store holds, lists and answers, and who may do what.

There are three types and nothing else: a reader has no way to write, a writer has no way to delete, and a
deleter can do nothing but delete. Who holds which is therefore visible in every signature, and true at run
time as well.

Keys are relative to the `uri` that was opened, raw text, never normalised: `a//b`, `a/./b` and
`dir/` are three names like any other. Where a store cannot address such a name exactly, it says so
(`not_addressable`) and touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, Self, runtime_checkable
from urllib.parse import quote

import pyarrow as pa

LISTING_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string()),
    ]
)
"""Columns of every listing batch; `key` is relative to the reader's URI, `etag` has no quotes."""
STORAGE_CLASS = "storage_class"
"""A column besides, where a store tells it: the class or tier of each object by a name that no other store has
(`GLACIER`, `GCS_COLDLINE`, `AZURE_ARCHIVE`); null for none, and for the plain one (STANDARD, Hot)."""
LISTING_SCHEMA_WITH_CLASS = LISTING_SCHEMA.append(pa.field(STORAGE_CLASS, pa.string()))

type Outcome = Literal["deleted", "missing", "kept", "failed", "not_addressable"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store knows about one object without reading it.

    Attributes:
        key: name relative to the store's URI, exact.
        size: bytes.
        last_modified: the store's own time, aware UTC.
        etag: the store's tag without quotes; a hash of the content in some (S3, for what was written in one piece).
        storage_class: see `STORAGE_CLASS`.
    """

    key: str
    size: int
    last_modified: datetime
    etag: str | None
    storage_class: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a store: folders (each ends with "/") and the objects directly in it, in key order."""

    folders: list[str]
    objects: list[ObjectInfo]


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """What became of one key.

    Attributes:
        key: as it was handed in.
        outcome: "deleted" (the store confirmed it; S3 confirms absent keys too; or the answer to our request was
            lost, and the key is gone when asked again), "missing" (a clear answer says that there was nothing),
            "kept" (of `ListedDeleter` alone: it is there, and stays), "failed" (the object may still be there) or
            "not_addressable" (this store has no exact way to name the key; nothing was sent).
        code: the store's error code, for failed keys; `CHANGED` or `STORE_HOLD`, for kept ones.
        message: the store's words, for failed and kept keys; for deleted ones what it answered first, where that was
            not clear and it had to be asked again.
        version_id: the delete marker's version, on a versioned bucket; None also where the answer was lost.
    """

    key: str
    outcome: Outcome
    code: str | None = None
    message: str | None = None
    version_id: str | None = None


type SkippedName = Callable[[str], None]
"""Called with a printable form of each name that a listing met but cannot give as a key."""


class ObjectStream(Protocol):
    """An open object: what is known of it, and its bytes in pieces. A context manager; close it."""

    @property
    def info(self) -> ObjectInfo:
        """The object as it was when it was opened; `size` is the whole object's."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def close(self) -> None:
        """Let go of the connection or file; further reading is undefined."""


class ObjectReader(Protocol):
    """Reads objects below one URI. Has no method that changes anything."""

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""

    @property
    def is_remote(self) -> bool:
        """Whether each look at an object is a request over a network, so that listing many costs less."""

    def stat(self, key: str) -> ObjectInfo:
        """Look one object up; raises NotFoundError."""

    def get(self, key: str) -> bytes:
        """Read one object whole; raises NotFoundError."""

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        """Read many objects, in the order of `keys`; an error of any key is raised, none is skipped.

        At most `concurrency` objects are held beyond the one being looked at, or `AHEAD_BYTES` of small ones
        (`dredge.storage.parallel`).
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer only where the object ends."""

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> ObjectStream:
        """Open an object (or a part of it) for reading in pieces of bounded size; raises NotFoundError."""

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List everything whose key starts with `prefix`, recursively, as batches of `LISTING_SCHEMA`.

        Args:
            prefix: plain text prefix of the key; "" is everything.
            start_after: only keys strictly greater (in bytes of UTF-8); "" is no bound.
            stop_before: only keys strictly smaller; "" is no bound.
            on_skipped: told of names that no key can express (see `SkippedName`); without it they are logged.

        Returns:
            Batches of `LISTING_SCHEMA`, all with a column `STORAGE_CLASS` besides or none; none is empty; in byte order
            of the keys where the store gives it (S3, local and memory do).
        """

    def list_level(self, prefix: str = "") -> Level:
        """List one level: what lies between `prefix` and the next "/"."""


class ObjectWriter(ObjectReader, Protocol):
    """Reads and writes objects below one URI. Cannot delete."""

    def put(self, key: str, data: bytes) -> str | None:
        """Write an object whole, replacing what was there; nobody sees a part of it. Returns the etag."""

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Write an object that must not exist; raises ConflictError when it does."""

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object that must still have `etag`; raises ConflictError when it has not, or is gone."""

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """Write an object from pieces in bounded memory; visible only when complete, not at all on error."""

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copy an object inside the store, replacing `target`; raises NotFoundError."""


type MaySend = Callable[[], bool]

CHANGED = "changed"
"""Code of a key under which there is something else than what was listed."""
STORE_HOLD = "store_hold"
"""Code of a key that the store itself refuses to delete: it is on hold there, or a retention policy has it."""
NOT_SENT = "NotSent"
"""Code of a key that failed because its request was not allowed to be sent any more."""


def always() -> bool:
    """Allow every request."""
    return True


class ObjectDeleter(Protocol):
    """Deletes objects below one URI, and can do nothing else."""

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key by exactly its own name.

        Args:
            keys: relative to the URI.
            may_send: asked right before each request, after whatever waiting a busy store needs; must not raise.
                Once it says no, nothing more is sent. Keys that were never sent have the code `NOT_SENT`.

        Returns:
            One outcome a key, in the order of `keys`. A key's failure never raises; only an error that
            concerns no single key (such as a missing bucket) does.
        """


@runtime_checkable
class ListedDeleter(ObjectDeleter, Protocol):
    """A deleter whose store deletes exactly what was listed, and leaves what took its place."""

    def delete_listed(self, objects: Sequence[ObjectInfo], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete objects that are still as they were listed; otherwise as `delete`.

        Args:
            objects: as a listing or a look of this store described them. One without a tag was not described: whatever
                has its key is deleted.
            may_send: see `delete`.

        Returns:
            One outcome an object, in their order; "kept" where it is another one by now, or the store holds it.
        """


@runtime_checkable
class UrlSigner(Protocol):
    """A store that signs URLs. Nothing is asked of the store: the object need not exist."""

    def presign_get(self, key: str, expires_seconds: int, filename: str = "") -> str:
        """Sign a URL to GET an object from.

        Args:
            key: of the object.
            expires_seconds: how long the URL is valid.
            filename: name under which browsers save the object; "" leaves that to them.
        """

    def presign_put(self, key: str, expires_seconds: int) -> str:
        """Sign a URL to PUT an object to; the client may send any content type."""


def attachment(filename: str) -> str:
    """A Content-Disposition that names a file (RFC 6266); encoded where the name is more than a plain word."""
    if re.fullmatch(r"[A-Za-z0-9!#$&+.^_`|~-]+", filename):
        return f"attachment; filename={filename}"
    if filename.isascii() and filename.isprintable():
        escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
        return f'attachment; filename="{escaped}"'
    return "attachment; filename*=utf-8''" + quote(filename, safe="", errors="replace")
