"""Multipart uploads by the XML API, whose parts are no objects; resumable uploads of streams.

The URL of a resumable upload lets anyone write to it, so no message has it. `google.resumable_media` handles its
pieces, checksum and progress.

Source: Cloud Storage XML API, "Multipart uploads". A real lakeFS uploads parts as objects beside the target; see
docs/stores/gcs.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.storage.gcs.clients import library
from dredge.storage.gcs.listing import FIELDS, Resource, read_resource
from dredge.storage.gcs.wire import Answer, Place, ask, open_once, retried, segment, send, upload_url
from dredge.storage.model import ObjectInfo
from dredge.storage.options import GcsOptions
from dredge.storage.uploads import (
    Completed,
    Part,
    Upload,
    UploadRefusedError,
    check_part_number,
    choose_parts,
    combined_etag,
)

_REFUSED = ("InvalidPart", "InvalidPartOrder", "EntityTooSmall")


class GcsUploads:
    """See `dredge.storage.uploads.Uploads`."""

    def __init__(self, options: GcsOptions, place: Place, stat: Callable[[str], ObjectInfo]) -> None:
        self._options = options
        self._place = place
        self._stat = stat

    def begin(self, key: str) -> str:
        """See `Uploads.begin`."""
        if not self._place.holds(key):
            raise ConfigError(
                f"{key!r} cannot be the name of an object below {self._place.uri}; nothing was begun"
            )
        headers = {"Content-Type": "application/octet-stream", "Content-Length": "0"}
        found = self._ask("POST", key, {"uploads": ""}, headers=headers)
        return _text(self._tree(found), "UploadId")

    def put_part(self, key: str, upload_id: str, number: int, chunks: Iterable[bytes]) -> Part:
        """See `Uploads.put_part`; a part is in memory, because it may be sent again."""
        check_part_number(number)
        data = b"".join(chunks)
        headers = {"Content-Type": "application/octet-stream"}
        asked = {"partNumber": str(number), "uploadId": upload_id}
        answer = self._ask("PUT", key, asked, data=data, headers=headers)
        etag = answer.headers.get("ETag", "").strip('"')
        if etag != hashlib.md5(data, usedforsecurity=False).hexdigest():
            raise FormatError(f"part {number} of {key!r} differs from the sent bytes")
        return Part(number, len(data), etag, _http_date(answer.headers.get("Date", "")))

    def parts(self, key: str, upload_id: str) -> list[Part]:
        """See `Uploads.parts`."""
        found: list[Part] = []
        asked = {"uploadId": upload_id, "max-parts": "1000"}
        while True:
            page = self._tree(self._ask("GET", key, asked))
            found += [_part(item) for item in page.iterfind("{*}Part")]
            if page.findtext("{*}IsTruncated") != "true":
                return sorted(found, key=lambda part: part.number)
            asked["part-number-marker"] = _text(page, "NextPartNumberMarker")

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> Completed:
        """See `Uploads.complete`."""
        chosen = choose_parts(self.parts(key, upload_id), parts)
        listed = "".join(
            f"<Part><PartNumber>{part.number}</PartNumber><ETag>{escape(part.etag)}</ETag></Part>"
            for part in chosen
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
        headers = {"Content-Type": "application/xml"}
        self._ask("POST", key, {"uploadId": upload_id}, data=body.encode(), headers=headers)
        return Completed(self._stat(key), combined_etag(part.etag for part in chosen))

    def abort(self, key: str, upload_id: str) -> None:
        """See `Uploads.abort`."""
        self._ask("DELETE", key, {"uploadId": upload_id}, expected=(204, 200))

    def open(self) -> list[Upload]:
        """See `Uploads.open`."""
        found, asked = list[Upload](), {"uploads": "", "prefix": self._place.root, "encoding-type": "url"}
        while True:
            page = self._tree(self._ask("GET", "", asked))
            found += [self._upload(item) for item in page.iterfind("{*}Upload")]
            if page.findtext("{*}IsTruncated") != "true":
                return sorted(found, key=lambda each: (each.key, each.upload_id))
            asked["key-marker"] = unquote(_text(page, "NextKeyMarker"))
            asked["upload-id-marker"] = _text(page, "NextUploadIdMarker")

    def _upload(self, item: ElementTree.Element) -> Upload:
        key = unquote(_text(item, "Key")).removeprefix(self._place.root)
        return Upload(key, _text(item, "UploadId"), _iso_time(_text(item, "Initiated")))

    def _ask(
        self, method: str, key: str, asked: dict[str, str], expected: tuple[int, ...] = (200,), **more: Any
    ) -> Answer:
        name = segment(self._place.root + key) if key else ""
        url = f"{self._options.endpoint}/{segment(self._place.bucket)}/{name}"
        doing = f"upload of {key!r} in {self._place.uri}"
        answer = ask(self._options, method, url, doing, (*expected, 400, 404), params=asked, **more)
        if answer.status in expected:
            return answer
        code = (_parsed(answer.body, doing).findtext("{*}Code") or "") if answer.body else ""
        if code in _REFUSED:
            raise UploadRefusedError(code, f"{doing}: {code}")
        if code == "NoSuchBucket":
            raise ConfigError(f"{doing}: {code}: the bucket does not exist at this endpoint")
        if answer.status == 404:
            raise NotFoundError(f"no such upload of {key!r} in {self._place.uri}")
        raise ConfigError(f"{doing}: {code or answer.status}")

    def _tree(self, answer: Answer) -> ElementTree.Element:
        return _parsed(answer.body, f"uploads in {self._place.uri}")


def _parsed(body: bytes, doing: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise FormatError(f"{doing}: an unreadable answer: {error}") from None


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.findtext(f"{{*}}{name}")
    if not found:
        raise FormatError(f"an answer about uploads has no {name}")
    return found


def _part(item: ElementTree.Element) -> Part:
    etag = _text(item, "ETag").strip('"')
    return Part(
        int(_text(item, "PartNumber")), int(_text(item, "Size")), etag, _iso_time(_text(item, "LastModified"))
    )


def _iso_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _http_date(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


PIECE_BYTES = 8 << 20
"""Held in memory; a multiple of 256 KiB."""


class StreamUpload:
    """One resumable upload of an object of unknown length, in bounded memory."""

    def __init__(
        self, options: GcsOptions, bucket: str, name: str, doing: str, condition: dict[str, str]
    ) -> None:
        library()
        from google.cloud.storage.fileio import SlidingBuffer
        from google.resumable_media.requests import ResumableUpload

        self._options = options
        self._doing = doing
        self._buffer: Any = SlidingBuffer()
        asked = {"uploadType": "resumable", "name": name, "fields": FIELDS, **condition}
        address = f"{upload_url(options, bucket)}?{urlencode(asked)}"
        self._upload: Any = ResumableUpload(address, PIECE_BYTES, "crc32c")  # type: ignore[no-untyped-call]
        about = {"name": name}
        self._retried(
            lambda: self._upload.initiate(
                self, self._buffer, about, "application/octet-stream", stream_final=False
            )
        )

    def send(self, chunks: Iterable[bytes]) -> Resource:
        """Write the object; after an error the upload is deleted."""
        try:
            for chunk in chunks:
                self._buffer.write(chunk)
                while len(self._buffer) > PIECE_BYTES:
                    self._retried(self._send_piece)
            answer = self._retried(self._send_piece)
            while not self._upload.finished:
                answer = self._retried(self._send_piece)
        except BaseException as error:
            with suppress(DredgeError):
                send(self._options, "DELETE", self._upload.resumable_url, self._doing)
            if isinstance(error, NotFoundError):
                forgotten = "the service has forgotten the upload; it must begin again"
                raise UnavailableError(f"{self._doing}: {forgotten}") from None
            raise
        return read_resource(answer.content, self._doing)

    def _send_piece(self) -> Any:
        """Send a piece from the service's position; returns the answer."""
        start = self._upload.bytes_uploaded
        if self._upload.invalid:
            self._upload.recover(self)
        self._buffer.seek(self._upload.bytes_uploaded)
        answer = self._upload.transmit_next_chunk(self)
        self._buffer.seek(self._upload.bytes_uploaded)
        self._buffer.flush()
        if self._upload.bytes_uploaded == start and not self._upload.finished:
            raise UnavailableError(f"{self._doing}: the service does not take the rest of the upload")
        return answer

    def request(self, method: str, url: str, data: Any = None, headers: Any = None, **_: Any) -> Any:
        """Make one request for the library."""
        more = {"data": data, "headers": headers}
        return open_once(self._options, method, url, self._doing, (200, 201, 308), **more)

    def _retried(self, attempt: Callable[[], Any]) -> Any:
        from google.resumable_media import DataCorruption, InvalidResponse

        def translated() -> Any:
            try:
                return attempt()
            except InvalidResponse:
                raise UnavailableError(f"{self._doing}: the service does not report its progress") from None
            except DataCorruption:
                raise FormatError(f"{self._doing}: the object differs from the sent bytes") from None
            except DredgeError:
                raise
            except ValueError as error:  # the service says that it has other bytes than were sent
                raise FormatError(f"{self._doing}: the service lost count of the upload ({error})") from None

        return retried(self._options, translated)
