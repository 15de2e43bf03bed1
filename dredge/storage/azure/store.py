"""Reader and writer of blobs in an Azure container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import chain
from typing import Any

import pyarrow as pa

from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.storage.azure.clients import FOLDER_MARK, code_of, container_client, translated
from dredge.storage.azure.deleting import AzureCopier, block_id, new_upload_id, only_if_absent
from dredge.storage.azure.listing import list_blobs, list_one_level
from dredge.storage.keys import is_exact
from dredge.storage.model import Level, ObjectInfo
from dredge.storage.remote import CHUNK_BYTES, OpenObject, RemoteReader, split_parts


class AzureReader(RemoteReader):
    """An `ObjectReader` of blobs below a prefix of a container."""

    def stat(self, key: str) -> ObjectInfo:
        client = self._blob(key)
        with translated(f"stat of {key!r} in {self.uri}"):
            return _info(key, client.get_blob_properties())

    def get(self, key: str) -> bytes:
        with self.open_read(key) as stream:
            return b"".join(stream)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        from azure.core.exceptions import HttpResponseError

        doing = f"reading {key!r} in {self.uri}"
        client = self._blob(key)
        if length == 0:
            return OpenObject(self.stat(key))
        part = bool(start) or length is not None
        with translated(doing):
            try:
                # Later requests of a long object carry the first one's ETag, so that no two objects are mixed.
                # Stored bytes are not decompressed, even with a Content-Encoding.
                opened = client.download_blob(
                    offset=start if part else None, length=length, max_concurrency=1, decompress=False
                )
            except HttpResponseError as error:
                if part and (code_of(error) == "InvalidRange" or error.status_code == 416):
                    return OpenObject(self.stat(key))  # it starts at or after the end
                raise
        return OpenObject(_info(key, opened.properties), _chunks(opened, doing))

    def _list(self, prefix: str, start_after: str, stop_before: str) -> Iterator[pa.RecordBatch]:
        return list_blobs(self._options, self._bucket, self._root, prefix, start_after, stop_before)

    def list_level(self, prefix: str = "") -> Level:
        return list_one_level(self._options, self._bucket, self._root, prefix)

    def _can_name(self, key: str) -> bool:
        return is_exact(self._root + key) and bool(key)

    def _blob(self, key: str) -> Any:
        return self._container.get_blob_client(self._name(key))

    @property
    def _container(self) -> Any:
        return container_client(self._options, self._bucket)


def _chunks(opened: Any, doing: str) -> Iterator[bytes]:
    with translated(doing):
        for piece in opened.chunks():
            for start in range(0, len(piece), CHUNK_BYTES):
                yield piece[start : start + CHUNK_BYTES]


class AzureWriter(AzureReader):
    """An `ObjectWriter` of blobs below a prefix of a container."""

    def put(self, key: str, data: bytes) -> str | None:
        return self._put(key, data, overwrite=True)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        return self._put(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str | None:
        from azure.core import MatchConditions

        try:
            return self._put(
                key, data, overwrite=True, etag=f'"{etag}"', match_condition=MatchConditions.IfNotModified
            )
        except NotFoundError as error:
            raise ConflictError(f"{error} (expected etag {etag})") from None

    def put_stream(self, key: str, chunks: Iterable[bytes], if_absent: bool = False) -> ObjectInfo:
        client = self._container.get_blob_client(self._target(key))
        with translated(f"writing {key!r} in {self.uri}"):
            _send_stream(client, chunks, if_absent)
        return self.stat(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        """See `ObjectWriter.copy`; the server copies."""
        self._name(source)
        self._target(target)
        return AzureCopier(self._location, self._location, self._options).copy_to(source, target)

    def _put(self, key: str, data: bytes, **more: Any) -> str | None:
        client = self._container.get_blob_client(self._target(key))
        with translated(f"writing {key!r} in {self.uri}"):
            answer = client.upload_blob(data, length=len(data), **more)
        return str(answer["etag"]).strip('"')


def _send_stream(client: Any, chunks: Iterable[bytes], if_absent: bool) -> None:
    """Write a blob of unknown length with one block in memory; after an error the blob is unchanged."""
    # Blocks are in no listing, and the service drops staged ones after a week.
    from azure.storage.blob import BlobBlock

    parts = split_parts(chunks)
    first = next(parts, b"")
    second = next(parts, None)
    if second is None:
        client.upload_blob(first, length=len(first), overwrite=not if_absent)
        return
    upload_id, staged = new_upload_id(), list[Any]()
    for number, part in enumerate(chain([first, second], parts), 1):
        name = block_id(upload_id, number)
        client.stage_block(name, part, length=len(part))
        staged.append(BlobBlock(block_id=name))
    client.commit_block_list(staged, **only_if_absent(if_absent))


def _info(key: str, found: Any) -> ObjectInfo:
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
