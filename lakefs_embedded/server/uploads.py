"""Streamed request bodies: raw bytes, or the field `content` of a form, as chunks that block until they arrive.

A worker thread pulls, and the event loop reads the socket only as fast as it does. So an upload of any size takes a few
hundred kilobytes of memory.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator
from email.message import Message

import anyio.from_thread
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from lakefs_embedded.server.responses import RequestError

CHUNK_BYTES = 256 << 10


class BodyChunks(Iterator[bytes]):
    """The raw body of a request, pulled by a worker thread in chunks of about CHUNK_BYTES."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._stream: AsyncIterator[bytes] | None = None

    def __next__(self) -> bytes:
        chunk = anyio.from_thread.run(self._pull)
        if not chunk:
            raise StopIteration
        return chunk

    async def _pull(self) -> bytes:
        if self._stream is None:
            self._stream = self._request.stream()
        parts: list[bytes] = []
        size = 0
        async for chunk in self._stream:
            parts.append(chunk)
            size += len(chunk)
            if size >= CHUNK_BYTES:
                break
        return b"".join(parts)


class FormContent(Iterator[bytes]):
    """The bytes of the form field `content`; other fields are skipped.

    `open` raises RequestError for a missing field, before any byte is stored; a malformed form can raise it at any
    chunk.
    """

    def __init__(self, chunks: Iterator[bytes], content_type: str) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise RequestError.body("no multipart boundary param in Content-Type")
        self._chunks = chunks
        self._ready: deque[bytes] = deque()
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._part = Message()
        self._found = self._inside = self._complete = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._enter_part,
                "on_part_data": self._take,
                "on_part_end": self._leave_part,
                "on_end": self._finish,
            },
        )

    def open(self) -> str:
        """Read up to the field, and return its content type; "" if it has none."""
        while not self._found and self._feed():
            pass
        if not self._found:
            raise RequestError.body("multipart upload missing key 'content'")
        return self._content_type

    def __next__(self) -> bytes:
        while not self._ready:
            if not self._feed():
                raise StopIteration
        return self._ready.popleft()

    def _feed(self) -> bool:
        chunk = next(self._chunks, b"")
        try:
            if chunk:
                self._parser.write(chunk)
                return True
        except MultipartParseError as problem:
            raise RequestError.body(f"multipart: {problem}") from None
        if not self._complete:
            raise RequestError.body("multipart: the form ends before its last boundary")
        return False

    def _begin_part(self) -> None:
        self._part = Message()

    def _end_header(self) -> None:
        name, value = self._header
        self._part[name.decode("latin-1")] = value.decode("latin-1")
        self._header = (bytearray(), bytearray())

    def _enter_part(self) -> None:
        name = self._part.get_param("name", header="content-disposition")
        self._inside = name == "content" and not self._found
        if self._inside:
            self._found = True
            self._content_type = str(self._part.get("content-type", ""))

    def _take(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._ready.append(bytes(data[start:end]))

    def _leave_part(self) -> None:
        self._inside = False

    def _finish(self) -> None:
        self._complete = True
