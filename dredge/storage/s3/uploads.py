"""Multipart uploads to S3."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.storage.keys import is_text
from dredge.storage.model import ObjectInfo
from dredge.storage.remote import split_parts
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
        if not key or not is_text(key):
            raise ConfigError(f"{key!r} cannot be the name of an object below {self._uri}; nothing was begun")
        with translated(f"beginning an upload of {key!r} in {self._uri}"):
            answer = self._client.create_multipart_upload(**self._target(key))
            return str(answer["UploadId"])

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
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
        found: list[Part] = []
        with self._about(key):
            pages = self._client.get_paginator("list_parts")
            for page in pages.paginate(**self._target(key), UploadId=upload_id):
                for part in page.get("Parts", []):
                    modified = part["LastModified"].astimezone(UTC)
                    found.append(Part(part["PartNumber"], part["Size"], part["ETag"].strip('"'), modified))
        return found

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        choose_parts(self.parts(key, upload_id), parts)
        listed = [{"PartNumber": number, "ETag": f'"{etag}"'} for number, etag in parts]
        with self._about(key):
            answer = self._client.complete_multipart_upload(
                **self._target(key), UploadId=upload_id, MultipartUpload={"Parts": listed}
            )
        return Completed(self._stat(key), str(answer["ETag"]).strip('"'))

    def abort(self, key: str, upload_id: str) -> None:
        with self._about(key):
            self._client.abort_multipart_upload(**self._target(key), UploadId=upload_id)

    def open(self) -> list[Upload]:
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


def send_stream(client: Any, target: dict[str, str], chunks: Iterable[bytes], if_absent: bool) -> None:
    """Write an object of unknown length: by one put, or by a multipart upload, which is aborted after an error."""
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
        client.abort_multipart_upload(**upload)
        raise
