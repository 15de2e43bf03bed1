"""Reader and writer of objects in a bucket of Google Cloud Storage."""

import hashlib
import io
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import pyarrow as pa

from dredge.errors import ConflictError, NotFoundError
from dredge.storage.gcs import listing
from dredge.storage.gcs.deleting import rewrite
from dredge.storage.gcs.wire import ask, is_name, object_url, open_stream, translated, upload_url
from dredge.storage.location import Location
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.remote import CHUNK_BYTES, OpenObject, RemoteReader

_AS_STORED = {"Accept-Encoding": "gzip"}
"""Without it the service unpacks objects with a Content-Encoding of gzip."""
_SPOOL_BYTES = 8 << 20


class GcsReader(RemoteReader):
    """An `ObjectReader` of objects below a prefix."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        super().__init__(location, options)
        self._gcs = options.gcs

    def stat(self, key: str) -> ObjectInfo:
        return listing.info(key, self._look(key))

    def get(self, key: str) -> bytes:
        doing = f"reading {key!r} in {self.uri}"
        return ask(self._gcs, "GET", self._url(key), doing, params={"alt": "media"}, headers=_AS_STORED).body

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        headers = _AS_STORED | {"Range": f"bytes={start}-{start + length - 1}"}
        doing = f"reading {key!r} in {self.uri}"
        answer = ask(
            self._gcs, "GET", self._url(key), doing, (200, 206, 416), params={"alt": "media"}, headers=headers
        )
        if answer.status == 416:
            return b""  # begins at or behind the end
        return answer.body if answer.status == 206 else answer.body[start : start + length]

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        """Open one generation of an object for reading; raises NotFoundError."""
        found, doing = self._look(key), f"reading {key!r}"
        end = int(found.size) if length is None else min(int(found.size), start + length)
        if end <= start:
            return OpenObject(listing.info(key, found))
        asked = {"alt": "media", "generation": found.generation}
        headers = _AS_STORED | {"Range": f"bytes={start}-{end - 1}"}
        response = open_stream(self._gcs, self._url(key), doing, params=asked, headers=headers)
        return OpenObject(listing.info(key, found), _chunks(response, doing), response.close)

    def _list(self, prefix: str, start_after: str, stop_before: str) -> Iterator[pa.RecordBatch]:
        return listing.list_objects(self._gcs, self._bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        return listing.list_one_level(self._gcs, self._bucket, self._root, prefix)

    def _look(self, key: str) -> listing.Resource:
        doing = f"stat of {key!r} in {self.uri}"
        answer = ask(self._gcs, "GET", self._url(key), doing, params={"fields": listing.FIELDS})
        return listing.read_resource(answer.body, doing)

    def _can_name(self, key: str) -> bool:
        return is_name(self._root, key)

    def _url(self, key: str) -> str:
        return object_url(self._gcs, self._bucket, self._name(key))


def _chunks(response: Any, doing: str) -> Iterator[bytes]:
    with translated(doing):
        while piece := response.raw.read(CHUNK_BYTES, decode_content=False):
            yield piece


class GcsWriter(GcsReader):
    """An `ObjectWriter` of objects below a prefix."""

    def put(self, key: str, data: bytes) -> str | None:
        return self._put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._put(key, data, ifGenerationMatch="0")

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """See `ObjectWriter.put_if_match`; the condition is the generation that has the tag now."""
        self._target(key)
        try:
            found = self._look(key)
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None
        if listing.tag(found) != etag:
            raise ConflictError(f"{key!r} is not the version that was expected; nothing was written")
        return self._put(key, data, ifGenerationMatch=found.generation)

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """See `ObjectWriter.put_stream`; the stream waits until it is whole, in memory or on disk."""
        name, condition = self._target(key), {"ifGenerationMatch": "0"} if if_absent else {}
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            spool.writelines(chunks)
            return listing.info(key, self._send(name, spool, f"writing {key!r} in {self.uri}", condition))

    def copy(self, source: str, target: str) -> ObjectInfo:
        """See `ObjectWriter.copy`; the server copies."""
        origin, bucket = self._name(source), self._bucket
        doing = f"copying {source!r} to {target!r} in {self.uri}"
        return listing.info(
            target, rewrite(self._gcs, (bucket, origin), (bucket, self._target(target)), doing)
        )

    def _put(self, key: str, data: bytes, **condition: str) -> str | None:
        doing = f"writing {key!r} in {self.uri}"
        return listing.tag(self._send(self._target(key), io.BytesIO(data), doing, condition))

    def _send(self, name: str, file: IO[bytes], doing: str, condition: dict[str, str]) -> listing.Resource:
        """Write an object by one request; the service checks its MD5, so it is whole or not there."""
        file.seek(0)
        digest = hashlib.md5(usedforsecurity=False)
        for piece in _pieces(file):
            digest.update(piece)
        size = file.tell()
        about = {
            "name": name,
            "md5Hash": listing.encoded_checksum(digest.digest()),
            "contentType": "application/octet-stream",
        }
        boundary = secrets.token_hex(16)
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n"
            f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        answer = ask(
            self._gcs,
            "POST",
            upload_url(self._gcs, self._bucket),
            doing,
            params={"uploadType": "multipart", "fields": listing.FIELDS, **condition},
            data=_Body(head.encode(), file, size, f"\r\n--{boundary}--\r\n".encode()),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
        )
        return listing.read_resource(answer.body, doing)


class _Body:
    """The body of an upload; each request, also a repeated one, reads it from its beginning."""

    def __init__(self, head: bytes, file: IO[bytes], size: int, tail: bytes) -> None:
        self._head = head
        self._file = file
        self._size = size
        self._tail = tail

    def __len__(self) -> int:
        return len(self._head) + self._size + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        yield self._head
        yield from _pieces(self._file)
        yield self._tail


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(CHUNK_BYTES):
        yield piece
