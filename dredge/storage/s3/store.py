"""Reader and writer of objects in an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Any, Self

import pyarrow as pa

from dredge.errors import ConfigError, ConflictError, NotFoundError, UnavailableError
from dredge.storage.keys import is_client_safe, is_text
from dredge.storage.location import Location
from dredge.storage.model import Level, ObjectInfo, SkippedName, attachment
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import get_ahead
from dredge.storage.s3.clients import bytes_client, s3_client, signing_client
from dredge.storage.s3.errors import translated, translated_native
from dredge.storage.s3.listing import list_objects, list_one_level
from dredge.storage.s3.uploads import S3Uploads, StreamUpload

CHUNK_BYTES = 1 << 20
COPY_LIMIT_BYTES = 5 << 30


class S3Reader:
    """Reads objects below an S3 prefix."""

    is_remote = True

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._bucket = location.bucket
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
        doing = f"stat of {key!r} in {self.uri}"
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(doing):
                found = store.head(name)
            return ObjectInfo(
                key, found["size"], found["last_modified"].astimezone(UTC), _bare(found["e_tag"])
            )
        with translated(doing):
            answer = self._client.head_object(Bucket=self._bucket, Key=name)
        return info_of_answer(key, answer)

    def get(self, key: str) -> bytes:
        """Read one object whole; raises NotFoundError."""
        name = self._name(key)
        doing = f"reading {key!r} in {self.uri}"
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(doing):
                return store.get(name).bytes().to_bytes()
        with translated(doing):
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=name)["Body"].read()
            return data

    def get_many(self, keys: Sequence[str], concurrency: int = 16) -> Iterator[tuple[str, bytes]]:
        """Read many objects in order; see `ObjectReader.get_many`."""
        return get_ahead(self.get, keys, concurrency)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from offset `start`; fewer only where the object ends."""
        if length <= 0:
            return b""
        with self.open_read(key, start, length) as stream:
            return b"".join(stream)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> S3Stream:
        """Open an object for reading in pieces; raises NotFoundError."""
        doing = f"reading {key!r} in {self.uri}"
        request: dict[str, Any] = {"Bucket": self._bucket, "Key": self._name(key)}
        if length == 0:
            return S3Stream(None, self.stat(key), doing)
        if start or length is not None:
            request["Range"] = f"bytes={start}-" if length is None else f"bytes={start}-{start + length - 1}"
        from botocore.exceptions import ClientError

        with translated(doing):
            try:
                answer: Any = self._client.get_object(**request)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in {"InvalidRange", "416"}:
                    return S3Stream(None, self.stat(key), doing)  # begins at or behind the end
                raise
        return S3Stream(answer["Body"], info_of_answer(key, answer), doing)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List recursively in key order, every key exact, none skipped; see `ObjectReader.list`."""
        return list_objects(self._options, self._bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        """List one level; see `ObjectReader.list_level`."""
        return list_one_level(self._options, self._bucket, self._root, prefix)

    @property
    def _client(self) -> Any:
        return s3_client(self._options, self._bucket)

    def _name(self, key: str) -> str:
        if not key or not is_text(key):
            raise NotFoundError(f"{key!r} is no name that an object below {self.uri} can have")
        return self._root + key


class S3Stream:
    """An open GET, read in pieces."""

    def __init__(self, body: Any, info: ObjectInfo, doing: str) -> None:
        self._body = body
        self._doing = doing
        self.info = info

    def __iter__(self) -> Iterator[bytes]:
        if self._body is None:
            return
        with translated(self._doing):
            yield from self._body.iter_chunks(CHUNK_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._body is not None:
            self._body.close()


class S3Writer(S3Reader):
    """Reads and writes objects below an S3 prefix."""

    def put(self, key: str, data: bytes) -> str | None:
        """Write an object whole, replacing what was there."""
        name = self._target(key)
        doing = f"writing {key!r} in {self.uri}"
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(doing):
                return _bare(store.put(name, data, use_multipart=False)["e_tag"])
        return self._put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Write an object that must not exist; raises ConflictError when it does."""
        return self._put(key, data, IfNoneMatch="*")

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        """Replace an object that must still have `etag`; raises ConflictError otherwise."""
        try:
            return self._put(key, data, IfMatch=f'"{etag}"')
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        """Write an object from pieces in bounded memory."""
        name = self._target(key)
        with translated(f"writing {key!r} in {self.uri}"):
            StreamUpload(self._client, self._bucket, name, if_absent).send(chunks)
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copy an object inside the bucket, on the server; raises NotFoundError."""
        found = self.stat(source)
        origin = {"Bucket": self._bucket, "Key": self._name(source)}
        with translated(f"copying {source!r} to {target!r} in {self.uri}"):
            if found.size <= COPY_LIMIT_BYTES:
                self._client.copy_object(Bucket=self._bucket, Key=self._target(target), CopySource=origin)
            else:
                self._client.copy(origin, self._bucket, self._target(target))
        return self.stat(target)

    def uploads(self) -> S3Uploads:
        """Multipart uploads to this bucket."""
        return S3Uploads(self.uri, self._bucket, self._root, lambda: self._client, self.stat)

    def presign_get(self, key: str, expires_seconds: int, filename: str = "") -> str:
        """Sign a URL to read an object; see `UrlSigner`."""
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        if filename:
            target["ResponseContentDisposition"] = attachment(filename)
        return str(self._signer.generate_presigned_url("get_object", target, ExpiresIn=expires_seconds))

    def presign_put(self, key: str, expires_seconds: int) -> str:
        """Sign a URL to write an object; see `UrlSigner`."""
        target = {"Bucket": self._bucket, "Key": self._target(key)}
        return str(self._signer.generate_presigned_url("put_object", target, ExpiresIn=expires_seconds))

    @property
    def _signer(self) -> Any:
        return signing_client(self._options, self._bucket)

    def _put(self, key: str, data: bytes, **condition: str) -> str | None:
        with translated(f"writing {key!r} in {self.uri}"):
            answer = self._client.put_object(
                Bucket=self._bucket, Key=self._target(key), Body=data, **condition
            )
        return _bare(answer.get("ETag"))

    def _target(self, key: str) -> str:
        if not key or not is_text(key):
            raise ConfigError(
                f"{key!r} cannot be the name of an object below {self.uri}; nothing was written"
            )
        return self._root + key


def info_of_answer(key: str, answer: Any) -> ObjectInfo:
    """What an answer about an object says of it."""
    size = answer["ContentLength"]
    if "ContentRange" in answer:  # "bytes 0-9/1234": the whole object's size is behind the slash
        size = int(answer["ContentRange"].rpartition("/")[2])
    modified = answer.get("LastModified")
    if modified is None:
        raise UnavailableError(f"the store gave no Last-Modified for {key!r}; its age is unknown")
    return ObjectInfo(key, size, modified.astimezone(UTC), _bare(answer.get("ETag")))


def _bare(etag: str | None) -> str | None:
    return etag.strip('"') if etag else None
