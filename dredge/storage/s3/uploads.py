"""Multipart uploads to S3, as the store has them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.keys import is_text
from dredge.storage.model import ObjectInfo
from dredge.storage.s3.errors import translated
from dredge.storage.uploads import (
    Completed,
    Part,
    Upload,
    UploadRefusedError,
    check_part_number,
    choose_parts,
)

# A part must be sent with its length and may be sent again: up to this size it waits in memory, else on disk.
SPOOL_BYTES = 8 << 20
_REFUSED = frozenset({"InvalidPart", "InvalidPartOrder", "EntityTooSmall"})


class S3Uploads:
    """See `dredge.storage.uploads.Uploads`."""

    def __init__(
        self,
        uri: str,
        bucket: str,
        root: str,
        client: Callable[[], Any],
        stat: Callable[[str], ObjectInfo],
    ) -> None:
        self._uri = uri
        self._bucket = bucket
        self._root = root
        self._client_of = client
        self._stat = stat

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""
        if not key or not is_text(key):
            raise ConfigError(f"{key!r} cannot be the name of an object below {self._uri}; nothing was begun")
        with translated(f"beginning an upload of {key!r} in {self._uri}"):
            answer = self._client.create_multipart_upload(**self._target(key))
            return str(answer["UploadId"])

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """Write a part; see `Uploads.put_part`."""
        check_part_number(number)
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
            for chunk in chunks:
                spool.write(chunk)
            size = spool.tell()
            spool.seek(0)
            with self._about(key):
                answer = self._client.upload_part(
                    **self._target(key), UploadId=upload_id, PartNumber=number, Body=spool
                )
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        return Part(number, size, answer["ETag"].strip('"'), _http_date(date))

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """The parts that are there, by number."""
        found: list[Part] = []
        with self._about(key):
            pages = self._client.get_paginator("list_parts")
            for page in pages.paginate(**self._target(key), UploadId=upload_id):
                for part in page.get("Parts", []):
                    modified = part["LastModified"].astimezone(UTC)
                    found.append(Part(part["PartNumber"], part["Size"], part["ETag"].strip('"'), modified))
        return found

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """Make the object; see `Uploads.complete`."""
        choose_parts(self.parts(key, upload_id), parts)
        listed = [{"PartNumber": number, "ETag": f'"{etag}"'} for number, etag in parts]
        with self._about(key):
            answer = self._client.complete_multipart_upload(
                **self._target(key), UploadId=upload_id, MultipartUpload={"Parts": listed}
            )
        return Completed(self._stat(key), str(answer["ETag"]).strip('"'))

    def abort(self, key: str, upload_id: str) -> None:
        """Give an upload up, with all its parts."""
        with self._about(key):
            self._client.abort_multipart_upload(**self._target(key), UploadId=upload_id)

    def open(self) -> list[Upload]:
        """All open uploads, by key and id."""
        found: list[Upload] = []
        root = self._root
        with translated(f"listing uploads in {self._uri}"):
            pages = self._client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self._bucket, Prefix=root):
                for each in page.get("Uploads", []):
                    begun = each["Initiated"].astimezone(UTC)
                    found.append(Upload(each["Key"].removeprefix(root), each["UploadId"], begun))
        return sorted(found, key=lambda each: (each.key, each.upload_id))

    @property
    def _client(self) -> Any:
        return self._client_of()

    def _target(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": self._root + key}

    @contextmanager
    def _about(self, key: str) -> Iterator[None]:
        """Translate errors; what is wrong with a list of parts keeps its code."""
        from botocore.exceptions import ClientError

        with translated(f"upload of {key!r} in {self._uri}"):
            try:
                yield
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                if code in _REFUSED:
                    raise UploadRefusedError(code, f"upload of {key!r}: {code}") from None
                if code == "NoSuchUpload":
                    raise NotFoundError(f"no such upload of {key!r} in {self._uri}") from None
                raise


def _http_date(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


PART_BYTES = 8 << 20


class StreamUpload:
    """One upload; holds at most one part in memory.

    Parts grow as the upload does, so that 10,000 of them reach the largest object S3 takes.
    """

    def __init__(self, client: Any, bucket: str, name: str, if_absent: bool) -> None:
        self._client = client
        self._target = {"Bucket": bucket, "Key": name}
        self._condition = {"IfNoneMatch": "*"} if if_absent else {}

    def send(self, chunks: Iterable[bytes]) -> None:
        """Write the object; after an error, also one that `chunks` raises, nothing of it is left."""
        parts = _parts(chunks)
        first = next(parts, b"")
        second = next(parts, None)
        if second is None:
            self._client.put_object(**self._target, Body=first, **self._condition)
            return
        upload = {
            **self._target,
            "UploadId": self._client.create_multipart_upload(**self._target)["UploadId"],
        }
        try:
            done = [self._send_part(upload, 1, first), self._send_part(upload, 2, second)]
            done += [self._send_part(upload, number, part) for number, part in enumerate(parts, 3)]
            self._client.complete_multipart_upload(
                **upload, MultipartUpload={"Parts": done}, **self._condition
            )
        except BaseException:
            self._client.abort_multipart_upload(**upload)
            raise

    def _send_part(self, upload: dict[str, Any], number: int, part: bytes) -> dict[str, Any]:
        answer = self._client.upload_part(**upload, PartNumber=number, Body=part)
        return {"PartNumber": number, "ETag": answer["ETag"]}


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    sent = 0
    size = PART_BYTES
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
            sent += 1
            if sent % 1000 == 0:
                size = min(size * 2, 512 << 20)
    if buffer:
        yield bytes(buffer)
