"""Writing a stream of unknown length in bounded memory: a resumable upload, seen only when it is complete.

Source: Cloud Storage documentation, "Perform resumable uploads": chunks are multiples of 256 KiB, 308 says how far the
service came, the last chunk names the total, and DELETE gives the upload up. The address of an upload lets anybody who
knows it write to it, so no message names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from dredge.errors import DredgeError, FormatError, UnavailableError
from dredge.storage.gcs.errors import PASSING, by_status
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.gcs.resources import FIELDS, Resource, read_resource
from dredge.storage.gcs.wire import ATTEMPTS, Answer, ask, pause, send, upload_url

PIECE_BYTES = 8 << 20
"""Held in memory; a multiple of 256 KiB."""
_GOING_ON = 308
_FORGOTTEN = frozenset({404, 410})


class Upload:
    """One upload; holds at most two pieces in memory.

    Args:
        options: how to reach the service.
        bucket: name of the bucket.
        name: whole name of the object.
        doing: for messages.
        condition: parameters that say when the object may be written.
    """

    def __init__(
        self, options: GcsOptions, bucket: str, name: str, doing: str, condition: dict[str, str]
    ) -> None:
        self._options = options
        self._doing = doing
        answer = ask(
            options,
            "POST",
            upload_url(options, bucket),
            doing,
            params={"uploadType": "resumable", "name": name, "fields": FIELDS, **condition},
            data=json.dumps({"name": name, "contentType": "application/octet-stream"}),
            headers={"Content-Type": "application/json; charset=UTF-8"},
        )
        address = answer.headers.get("Location")
        if not address:
            raise UnavailableError(f"{doing}: the service began no upload")
        self._address: str = address

    def send(self, first: bytes, second: bytes, rest: Iterator[bytes]) -> Resource:
        """Write the object; after an error, also one that `rest` raises, nothing of it is left."""
        try:
            self._send_piece(first, 0, None)
            start, last = len(first), second
            for piece in rest:
                self._send_piece(last, start, None)
                start, last = start + len(last), piece
            answer = self._send_piece(last, start, start + len(last))
        except BaseException:
            with suppress(DredgeError):
                send(self._options, "DELETE", self._address, self._doing)
            raise
        return read_resource(answer.body, self._doing)

    def _send_piece(self, piece: bytes, start: int, total: int | None) -> Answer:
        """Send one piece, and what the service did not take of it again; gives the last answer."""
        end, begun = start + len(piece), start
        for attempt in range(ATTEMPTS):
            answer = self._try(piece[begun - start :], begun, end, total)
            if answer is None or answer.status in PASSING:
                pause(attempt)
                answer = self._try(b"", end, end, None)  # asks how far it came
                if answer is None or answer.status in PASSING:
                    continue
            if answer.status in {200, 201}:
                if total is None:
                    raise FormatError(f"{self._doing}: the service ended the upload before its end")
                return answer
            if answer.status in _FORGOTTEN:
                raise UnavailableError(
                    f"{self._doing}: the service has forgotten the upload; it must begin again"
                )
            if answer.status != _GOING_ON:
                raise by_status(answer.status, answer.body, self._doing)
            begun = self._taken(answer, start, end)
            if begun == end and total is None:
                return answer
        raise UnavailableError(f"{self._doing}: the service does not take the rest of the upload")

    def _try(self, data: bytes, start: int, end: int, total: int | None) -> Answer | None:
        span = f"{start}-{end - 1}" if data else "*"
        headers = {"Content-Range": f"bytes {span}/{'*' if total is None else total}"}
        try:
            return send(self._options, "PUT", self._address, self._doing, data=data, headers=headers)
        except UnavailableError:
            return None

    def _taken(self, answer: Answer, start: int, end: int) -> int:
        """How far the service came."""
        found: Any = answer.headers.get("Range")
        taken = int(found.rpartition("-")[2]) + 1 if found else 0
        if not start <= taken <= end:
            raise FormatError(
                f"{self._doing}: the service says it has {taken} bytes, which were not sent now"
            )
        return taken


def pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream into pieces of PIECE_BYTES; the last one may be shorter."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= PIECE_BYTES:
            yield bytes(buffer[:PIECE_BYTES])
            del buffer[:PIECE_BYTES]
    if buffer:
        yield bytes(buffer)
