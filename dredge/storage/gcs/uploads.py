"""Resumable uploads of streams.

The URL of a resumable upload lets anyone write to it, so no message has it. `google.resumable_media` handles its
pieces, checksum and progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from dredge.errors import DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.storage.gcs.clients import library
from dredge.storage.gcs.listing import FIELDS, Resource, read_resource
from dredge.storage.gcs.wire import open_once, retried, send, upload_url
from dredge.storage.options import GcsOptions

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
