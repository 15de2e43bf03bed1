"""Reader and writer of objects in an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC
from itertools import chain
from typing import Any

import pyarrow as pa

from dredge.errors import ConflictError, NotFoundError, UnavailableError
from dredge.storage.keys import is_client_safe, is_s3_key
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.remote import CHUNK_BYTES, OpenObject, RemoteReader, split_parts
from dredge.storage.s3.clients import bytes_client, s3_client
from dredge.storage.s3.errors import translated, translated_native
from dredge.storage.s3.listing import list_objects, list_one_level

COPY_LIMIT_BYTES = 5 << 30


class S3Reader(RemoteReader):
    """An `ObjectReader` of objects below an S3 prefix."""

    def stat(self, key: str) -> ObjectInfo:
        name, doing = self._name(key), f"stat of {key!r} in {self.uri}"
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
        name, doing = self._name(key), f"reading {key!r} in {self.uri}"
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(doing):
                return store.get(name).bytes().to_bytes()
        with translated(doing):
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=name)["Body"].read()
            return data

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        doing = f"reading {key!r} in {self.uri}"
        request: dict[str, Any] = {"Bucket": self._bucket, "Key": self._name(key)}
        if length == 0:
            return OpenObject(self.stat(key))
        if start or length is not None:
            request["Range"] = f"bytes={start}-" if length is None else f"bytes={start}-{start + length - 1}"
        from botocore.exceptions import ClientError

        with translated(doing):
            try:
                answer: Any = self._client.get_object(**request)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in {"InvalidRange", "416"}:
                    return OpenObject(self.stat(key))  # it starts at or after the end
                raise
        body = answer["Body"]
        return OpenObject(info_of_answer(key, answer), _chunks(body, doing), body.close)

    def _list(self, prefix: str, start_after: str, stop_before: str) -> Iterator[pa.RecordBatch]:
        return list_objects(self._options, self._bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        return list_one_level(self._options, self._bucket, self._root, prefix)

    @property
    def _client(self) -> Any:
        return s3_client(self._options, self._bucket)

    def _can_name(self, key: str) -> bool:
        return is_s3_key(key)


def _chunks(body: Any, doing: str) -> Iterator[bytes]:
    with translated(doing):
        yield from body.iter_chunks(CHUNK_BYTES)


class S3Writer(S3Reader):
    """An `ObjectWriter` of objects below an S3 prefix."""

    def put(self, key: str, data: bytes) -> str | None:
        name = self._target(key)
        store = bytes_client(self._options, self._bucket) if is_client_safe(name) else None
        if store is not None:
            with translated_native(f"writing {key!r} in {self.uri}"):
                return _bare(store.put(name, data, use_multipart=False)["e_tag"])
        return self._put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._put(key, data, IfNoneMatch="*")

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        try:
            return self._put(key, data, IfMatch=f'"{etag}"')
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        name = self._target(key)
        with translated(f"writing {key!r} in {self.uri}"):
            _send_stream(self._client, {"Bucket": self._bucket, "Key": name}, chunks, if_absent)
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """See `ObjectWriter.copy`; the server copies."""
        found = self.stat(source)
        origin = {"Bucket": self._bucket, "Key": self._name(source)}
        with translated(f"copying {source!r} to {target!r} in {self.uri}"):
            if found.size <= COPY_LIMIT_BYTES:
                self._client.copy_object(Bucket=self._bucket, Key=self._target(target), CopySource=origin)
            else:
                self._client.copy(origin, self._bucket, self._target(target))
        return self.stat(target)

    def _put(self, key: str, data: bytes, **condition: str) -> str | None:
        with translated(f"writing {key!r} in {self.uri}"):
            answer = self._client.put_object(
                Bucket=self._bucket, Key=self._target(key), Body=data, **condition
            )
        return _bare(answer.get("ETag"))


def _send_stream(client: Any, target: dict[str, str], chunks: Iterable[bytes], if_absent: bool) -> None:
    """Write an object of unknown length: by one put, or by a multipart upload, which is aborted after an error."""
    from botocore.exceptions import BotoCoreError, ClientError

    parts, condition = split_parts(chunks), {"IfNoneMatch": "*"} if if_absent else {}
    first = next(parts, b"")
    second = next(parts, None)
    if second is None:
        client.put_object(**target, Body=first, **condition)
        return
    upload = {**target, "UploadId": client.create_multipart_upload(**target)["UploadId"]}
    try:
        done = []
        for number, part in enumerate(chain([first, second], parts), 1):
            answer = client.upload_part(**upload, PartNumber=number, Body=part)
            done.append({"PartNumber": number, "ETag": answer["ETag"]})
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": done}, **condition)
    except BaseException:
        with suppress(BotoCoreError, ClientError):  # an error here must not hide the first one
            client.abort_multipart_upload(**upload)
        raise


def info_of_answer(key: str, answer: Any) -> ObjectInfo:
    """Read the answer to a HEAD or GET of an object."""
    size = answer["ContentLength"]
    if "ContentRange" in answer:  # "bytes 0-9/1234": the size of the whole object is after the slash
        size = int(answer["ContentRange"].rpartition("/")[2])
    modified = answer.get("LastModified")
    if modified is None:
        raise UnavailableError(f"the store gave no Last-Modified for {key!r}; its age is unknown")
    return ObjectInfo(key, size, modified.astimezone(UTC), _bare(answer.get("ETag")))


def _bare(etag: str | None) -> str | None:
    return etag.strip('"') if etag else None
