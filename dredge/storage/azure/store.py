"""Reader and writer of blobs in an Azure container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Any, Self

import pyarrow as pa

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError
from dredge.storage.azure.clients import container_client, signed_url
from dredge.storage.azure.errors import code_of, translated
from dredge.storage.azure.listing import FOLDER_MARK, list_blobs, list_one_level
from dredge.storage.azure.undo import AzureCopier
from dredge.storage.azure.uploads import BlockUploads, send_stream
from dredge.storage.keys import is_exact
from dredge.storage.location import Location
from dredge.storage.model import Level, ObjectInfo, SkippedName
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import get_ahead

CHUNK_BYTES = 1 << 20


class AzureReader:
    """Reads blobs below a prefix of a container."""

    is_remote = True

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def stat(self, key: str) -> ObjectInfo:
        """Look one object up; raises NotFoundError."""
        client = self._blob(key)
        with translated(f"stat of {key!r} in {self.uri}"):
            return _info(key, client.get_blob_properties())

    def get(self, key: str) -> bytes:
        """Read one object whole; raises NotFoundError."""
        with self.open_read(key) as stream:
            return b"".join(stream)

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        """Read many objects in order; see `ObjectReader.get_many`."""
        return get_ahead(self.get, keys, concurrency)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer only where the object ends."""
        if length <= 0:
            return b""
        with self.open_read(key, start, length) as stream:
            return b"".join(stream)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> AzureStream:
        """Open an object for reading in pieces; raises NotFoundError."""
        from azure.core.exceptions import HttpResponseError

        doing = f"reading {key!r} in {self.uri}"
        client = self._blob(key)
        if length == 0:
            return AzureStream(None, self.stat(key), doing)
        part = bool(start) or length is not None
        with translated(doing):
            try:
                # Later requests of a long object carry the first one's ETag, so that no two objects are mixed.
                # Bytes are given as they lie there, whatever Content-Encoding says of them.
                opened = client.download_blob(
                    offset=start if part else None, length=length, max_concurrency=1, decompress=False
                )
            except HttpResponseError as error:
                if part and (code_of(error) == "InvalidRange" or error.status_code == 416):
                    return AzureStream(None, self.stat(key), doing)  # begins at or behind the end
                raise
        return AzureStream(opened, _info(key, opened.properties), doing)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List recursively in key order, every key exact, none skipped; see `ObjectReader.list`."""
        return list_blobs(self._options, self._location.bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        """List one level; see `ObjectReader.list_level`."""
        return list_one_level(self._options, self._location.bucket, self._root, prefix)

    def _blob(self, key: str) -> Any:
        if not key or not is_exact(self._root + key):
            raise NotFoundError(f"{key!r} cannot be addressed exactly in {self.uri}")
        return self._container.get_blob_client(self._root + key)

    @property
    def _container(self) -> Any:
        return container_client(self._options, self._location.bucket)


class AzureStream:
    """An open blob, read in pieces."""

    def __init__(self, opened: Any, info: ObjectInfo, doing: str) -> None:
        self._opened = opened
        self._doing = doing
        self.info = info

    def __iter__(self) -> Iterator[bytes]:
        if self._opened is None:
            return
        with translated(self._doing):
            for piece in self._opened.chunks():
                for start in range(0, len(piece), CHUNK_BYTES):
                    yield piece[start : start + CHUNK_BYTES]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what was read ahead; every request is over by itself."""
        self._opened = None


class AzureWriter(AzureReader):
    """Reads and writes blobs below a prefix of a container."""

    def put(self, key: str, data: bytes) -> str | None:
        """Write an object whole, replacing what was there."""
        return self._put(key, data, overwrite=True)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Write an object that must not exist; raises ConflictError when it does."""
        return self._put(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object that must still have `etag`; raises ConflictError otherwise."""
        from azure.core import MatchConditions

        try:
            return self._put(
                key, data, overwrite=True, etag=f'"{etag}"', match_condition=MatchConditions.IfNotModified
            )
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """Write an object from pieces in bounded memory."""
        client = self._target(key)
        with translated(f"writing {key!r} in {self.uri}"):
            send_stream(client, chunks, if_absent)
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copy an object inside the container, on the server; raises NotFoundError."""
        self._blob(source)
        self._target(target)
        return AzureCopier(self._location, self._location, self._options).copy_to(source, target)

    def uploads(self) -> BlockUploads:
        """Uploads in parts to this container."""
        return BlockUploads(self.uri, self._root, lambda: self._container, self.stat)

    def presign_get(self, key: str, expires_seconds: int, filename: str = "") -> str:
        """Sign a URL to read an object; see `UrlSigner`."""
        self._blob(key)
        return signed_url(
            self._options, self._location.bucket, self._root + key, expires_seconds, "r", filename
        )

    def presign_put(self, key: str, expires_seconds: int) -> str:
        """Sign a URL to write an object; whoever sends it says `x-ms-blob-type: BlockBlob`. See `UrlSigner`."""
        self._target(key)
        return signed_url(self._options, self._location.bucket, self._root + key, expires_seconds, "racw")

    def _put(self, key: str, data: bytes, **more: Any) -> str | None:
        client = self._target(key)
        with translated(f"writing {key!r} in {self.uri}"):
            answer = client.upload_blob(data, length=len(data), **more)
        return str(answer["etag"]).strip('"')

    def _target(self, key: str) -> Any:
        if not key or not is_exact(self._root + key):
            raise ConfigError(f"{key!r} cannot be addressed exactly in {self.uri}; nothing was written")
        return self._container.get_blob_client(self._root + key)


def _info(key: str, found: Any) -> ObjectInfo:
    """What the properties of a blob say; a directory's placeholder is no object."""
    marks = {name.lower(): value for name, value in (found.metadata or {}).items()}
    if marks.get(FOLDER_MARK) == "true" and not found.size:
        raise NotFoundError(f"{key!r} is a directory, not an object")
    if found.last_modified is None or found.etag is None:
        raise FormatError(f"the store gave no Last-Modified or ETag for {key!r}; its age is unknown")
    whole = (
        found.content_range or ""
    )  # of a part, "bytes 0-9/1234": the whole object's size is behind the slash
    size = int(whole.rpartition("/")[2]) if whole else found.size
    tier = f"AZURE_{found.blob_tier}".upper() if found.blob_tier and found.blob_tier != "Hot" else None
    return ObjectInfo(key, size, found.last_modified.astimezone(UTC), found.etag.strip('"'), tier)
