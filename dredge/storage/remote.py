"""GCS and Azure through obstore. NOT TESTED against either service; our tests run this code on obstore's
memory store.

Limits that come with the client, and what we do about them:

* It drops a slash at the end of listed keys without a word and fails on `//`, `.` and `..`. Keys that are not
  their own normal form are therefore `not_addressable` here, and a listing whose keys are not strictly
  ascending (which a dropped slash beside its namesake causes) is refused as a whole.
* Its bulk delete stops at the first error without saying how far it came, so every key is deleted by a
  request of its own.
* It hangs in a child forked after its first use, so such a child is told so instead.

Credentials come from the environment, as obstore reads it for each service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError, UnavailableError
from dredge.storage import native
from dredge.storage.keys import is_client_safe, is_text
from dredge.storage.location import Location
from dredge.storage.model import (
    LISTING_SCHEMA,
    NOT_SENT,
    DeleteOutcome,
    Level,
    MaySend,
    ObjectInfo,
    SkippedName,
    always,
)
from dredge.storage.native import translated_native
from dredge.storage.parallel import ordered_map
from dredge.storage.undo import check_source

BATCH_ROWS = 8192
DELETE_REQUESTS = 16
_stores: dict[str, Any] = {}


def _store(location: Location) -> Any:
    """The client for a container; one for each process."""
    if not native.usable():
        raise ConfigError(
            f"{location.uri}: this process was forked from one that had loaded the client, which hangs "
            "then. Start it afresh (multiprocessing: spawn)."
        )
    if location.bucket not in _stores:
        from obstore.store import from_url

        try:
            with translated_native(f"opening {location.uri}"):
                _stores[location.bucket] = from_url(
                    location.bucket,
                    client_options={
                        "connect_timeout": f"{native.CONNECT_SECONDS}s",
                        "read_timeout": f"{native.READ_SECONDS}s",
                        "timeout": "30m",
                    },
                )
        except UnavailableError as error:  # nothing was connected yet: the settings are wrong
            raise ConfigError(str(error)) from None
    return _stores[location.bucket]


def _addressable(name: str) -> bool:
    return bool(name) and is_text(name) and is_client_safe(name)


class RemoteReader:
    """Reads objects of a container."""

    is_remote = True

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def stat(self, key: str) -> ObjectInfo:
        """Look one object up; raises NotFoundError."""
        name = self._name(key)
        with translated_native(f"stat of {key!r} in {self.uri}"):
            return _info(key, _store(self._location).head(name))

    def get(self, key: str) -> bytes:
        """Read one object whole; raises NotFoundError."""
        name = self._name(key)
        with translated_native(f"reading {key!r} in {self.uri}"):
            data: bytes = _store(self._location).get(name).bytes().to_bytes()
            return data

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        """Read many objects in order; see `ObjectReader.get_many`."""
        return zip(keys, ordered_map(self.get, keys, concurrency), strict=True)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer only where the object ends."""
        with self.open_read(key, start, length) as stream:
            return b"".join(stream)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> RemoteStream:
        """Open an object for reading in pieces; raises NotFoundError."""
        name = self._name(key)
        doing = f"reading {key!r} in {self.uri}"
        found = self.stat(key)
        end = found.size if length is None else min(found.size, start + length)
        if end <= start:
            return RemoteStream(None, found, doing)
        with translated_native(doing):
            opened = _store(self._location).get(name, options={"range": (start, end)})
        return RemoteStream(opened, found, doing)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List recursively; see `ObjectReader.list` and this module's text."""
        whole = self._root + prefix
        folder = whole.rpartition("/")[0]
        if folder and not _addressable(folder):
            return  # the client has no name for what could be below
        offset = self._root + start_after if start_after else None
        doing = f"listing {prefix!r} in {self.uri}"
        last = ""
        with translated_native(doing):
            stream = _store(self._location).list(
                folder or None, offset=offset, chunk_size=BATCH_ROWS, return_arrow=True
            )
            for batch in stream:
                rows = _rows(pa.record_batch(batch))
                last = _ascending(rows, last, doing)
                rows = rows.filter(pc.starts_with(rows.column(0), whole))
                rows = _relative(rows, self._root)
                if start_after:
                    rows = rows.filter(pc.greater(rows.column(0), start_after))
                if stop_before:
                    rows = rows.filter(pc.less(rows.column(0), stop_before))
                if rows.num_rows:
                    yield rows

    def list_level(self, prefix: str = "") -> Level:
        """List one level; see `ObjectReader.list_level`."""
        whole = self._root + prefix
        folder = whole.rpartition("/")[0]
        if folder and not _addressable(folder):
            return Level([], [])
        with translated_native(f"listing {prefix!r} in {self.uri}"):
            found = _store(self._location).list_with_delimiter(folder or None)
        cut = len(self._root)
        folders = sorted(name + "/" for name in found["common_prefixes"] if (name + "/").startswith(whole))
        objects = [
            _info(item["path"][cut:], item) for item in found["objects"] if item["path"].startswith(whole)
        ]
        return Level([name[cut:] for name in folders], sorted(objects, key=lambda info: info.key))

    def _name(self, key: str) -> str:
        if not _addressable(self._root + key) or not key:
            raise NotFoundError(f"{key!r} cannot be addressed exactly in {self.uri}")
        return self._root + key


class RemoteStream:
    """An open GET, read in pieces."""

    def __init__(self, opened: Any, info: ObjectInfo, doing: str) -> None:
        self._opened = opened
        self._doing = doing
        self.info = info

    def __iter__(self) -> Iterator[bytes]:
        if self._opened is None:
            return
        with translated_native(self._doing):
            for piece in self._opened.stream(min_chunk_size=1 << 20):
                yield bytes(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._opened = None


class RemoteWriter(RemoteReader):
    """Reads and writes objects of a container."""

    def put(self, key: str, data: bytes) -> str | None:
        """Write an object whole, replacing what was there."""
        return self._put(key, data, "overwrite")

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Write an object that must not exist; raises ConflictError when it does."""
        return self._put(key, data, "create")

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object that must still have `etag`; raises ConflictError otherwise."""
        name = self._target(key)
        try:
            with translated_native(f"writing {key!r} in {self.uri}"):
                present = _store(self._location).head(name)
        except NotFoundError as error:
            raise ConflictError(str(error)) from None
        if _bare(present["e_tag"]) != etag:
            raise ConflictError(f"{key!r} is not the version that was expected; nothing was written")
        # GCS compares the version, Azure the tag: both are of the object we have just looked at.
        seen = {"e_tag": present["e_tag"], "version": present["version"]}
        return self._put(key, data, {name: value for name, value in seen.items() if value is not None})

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """Write an object from pieces; in bounded memory unless `if_absent`, which is only done whole."""
        if if_absent:
            self.put_if_absent(key, b"".join(chunks))
            return self.stat(key)
        name = self._target(key)
        with translated_native(f"writing {key!r} in {self.uri}"):
            _store(self._location).put(name, (chunk for chunk in chunks if chunk))
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copy an object inside the container, on the server; raises NotFoundError."""
        origin, name = self._name(source), self._target(target)
        with translated_native(f"copying {source!r} to {target!r} in {self.uri}"):
            _store(self._location).copy(origin, name)
        return self.stat(target)

    def _put(self, key: str, data: bytes, mode: Any) -> str | None:
        name = self._target(key)
        with translated_native(f"writing {key!r} in {self.uri}"):
            return _bare(_store(self._location).put(name, data, mode=mode, use_multipart=False)["e_tag"])

    def _target(self, key: str) -> str:
        if not key or not _addressable(self._root + key):
            raise ConfigError(f"{key!r} cannot be addressed exactly in {self.uri}; nothing was written")
        return self._root + key


class RemoteDeleter:
    """Deletes objects of a container, each by a request of its own."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"RemoteDeleter({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key; see `ObjectDeleter.delete`."""
        distinct = list(dict.fromkeys(keys))
        found = {
            o.key: o for o in ordered_map(lambda key: self._delete(key, may_send), distinct, DELETE_REQUESTS)
        }
        return [found[key] for key in keys]

    def _delete(self, key: str, may_send: MaySend) -> DeleteOutcome:
        if not key or not _addressable(self._root + key):
            return DeleteOutcome(key, "not_addressable")
        if not may_send():
            return DeleteOutcome(key, "failed", NOT_SENT)
        try:
            with translated_native(f"deleting {key!r}"):
                _store(self._location).delete(self._root + key)
        except NotFoundError:
            return DeleteOutcome(key, "missing")
        except UnavailableError as error:
            return DeleteOutcome(key, "failed", "Unavailable", str(error))
        except ConfigError as error:
            return DeleteOutcome(key, "failed", "AccessDenied", str(error))
        return DeleteOutcome(key, "deleted")


def _rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The client's columns as ours."""
    etags = batch.column("e_tag").cast(pa.string())
    arrays = [
        batch.column("path").cast(pa.string()),
        batch.column("size").cast(pa.int64()),
        batch.column("last_modified").cast(LISTING_SCHEMA.field("last_modified").type),
        pc.utf8_trim(etags, '"'),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA)


def _relative(rows: pa.RecordBatch, root: str) -> pa.RecordBatch:
    if not root:
        return rows
    return rows.set_column(0, LISTING_SCHEMA.field(0), pc.utf8_slice_codeunits(rows.column(0), len(root)))


def _ascending(rows: pa.RecordBatch, last: str, doing: str) -> str:
    """Prove that keys ascend strictly; returns the last one."""
    keys = rows.column(0)
    if not rows.num_rows:
        return last
    first = keys[0].as_py()
    if (last and first <= last) or not pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py():
        raise FormatError(
            f"{doing}: keys are not in strict order, so some are not what the store calls them (a key that "
            "ends with a slash, most likely). Nothing of this listing may be used."
        )
    return str(keys[-1].as_py())


def _info(key: str, meta: Any) -> ObjectInfo:
    return ObjectInfo(key, meta["size"], meta["last_modified"].astimezone(UTC), _bare(meta["e_tag"]))


def _bare(etag: str | None) -> str | None:
    return etag.strip('"') if etag else None


class RemoteCopier:
    """Copies inside a container; see `dredge.storage.undo.ObjectCopier`.

    Args:
        source: copied from.
        target: copied to, in the same container.
    """

    def __init__(self, source: Location, target: Location) -> None:
        self._source = RemoteReader(source)
        self._target = RemoteReader(target)
        self._location = target

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object, and look at the copy."""
        found = self._source.stat(key)
        check_source(key, found.size, found.etag, size, etag)
        origin, name = _whole(self._source, key), _whole(self._target, key)
        with translated_native(f"copying {key!r} from {self._source.uri} to {self._target.uri}"):
            _store(self._location).copy(origin, name, overwrite=not if_absent)
        copied = self._target.stat(key)
        if copied.size != found.size:
            raise FormatError(f"the copy of {key!r} has another size than its source")
        return copied


def _whole(reader: RemoteReader, key: str) -> str:
    return reader._name(key)
