"""Reading objects at any ref: stat, list, bytes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from email.utils import format_datetime

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from dredge.graveler.catalog import ObjectContent, ObjectStats
from dredge.graveler.errors import BadRequestError
from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.storage import ObjectStream

READ_BYTES = 1 << 20  # an object up to this size is read whole
_RANGE = re.compile(r"^bytes=\s*(\d*)\s*-\s*(\d*)\s*$", re.ASCII)
_INLINE = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp", "text/plain", "application/json"})


class PresignUnsupportedError(BadRequestError):
    """Pre-signed URLs were asked for; this server has none."""

    default = "operation not supported"


class _BadRange(Exception):
    """A Range header that cannot be served; `satisfiable` says whether it made sense at all."""

    def __init__(self, satisfiable: bool) -> None:
        self.satisfiable = satisfiable


def stat_object(call: Call) -> Response:
    """GET …/refs/{ref}/objects/stat."""
    _refuse_presign(call)
    found = call.catalog.reading.stat(call.repository, call.path["ref"], call.query.required("path"))
    metadata = found.metadata if call.query.flag("user_metadata", default=True) else {}
    return answers.answer(200, shapes.object_stats(found, metadata=metadata))


def list_objects(call: Call) -> Response:
    """GET …/refs/{ref}/objects/ls."""
    _refuse_presign(call)
    with_metadata = call.query.flag("user_metadata", default=True)
    found = call.catalog.reading.list_entries(
        call.repository, call.path["ref"], delimiter=call.query.text("delimiter"), **call.query.paging
    )
    results = [
        shapes.object_stats(each, metadata=each.metadata if with_metadata and each.metadata else None)
        for each in found.results
    ]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def head_object(call: Call) -> Response:
    """HEAD …/refs/{ref}/objects: says nothing about whether the bytes are there."""
    stats = call.catalog.reading.stat(call.repository, call.path["ref"], call.query.required("path"))
    headers = {
        **_object_headers(stats),
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-store, must-revalidate",
        "Expires": "0",
    }
    wanted = call.headers.get("range")
    if wanted is None:
        return Response(None, 200, {**headers, "Content-Length": str(stats.size_bytes)})
    try:
        start, end = _parse_range(wanted, stats.size_bytes)
    except _BadRange:
        return answers.empty(416)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{stats.size_bytes}"
    return Response(None, 206, {**headers, "Content-Length": str(end - start)})


def get_object(call: Call) -> Response:
    """GET …/refs/{ref}/objects: whole, a range (206), or 304."""
    content = call.catalog.reading.get_object(call.repository, call.path["ref"], call.query.required("path"))
    stats = content.stats
    headers = _object_headers(stats)
    if call.headers.get("if-none-match") == headers["ETag"]:
        return answers.empty(304)
    _refuse_presign(call)
    headers["Cache-Control"] = "private, no-cache, no-store, must-revalidate"
    headers["Content-Disposition"] = "inline" if stats.content_type in _INLINE else "attachment"
    headers["X-Content-Type-Options"] = "nosniff"
    wanted = call.headers.get("range")
    if wanted is None:
        return _bytes(content, 0, stats.size_bytes, 200, headers)
    try:
        start, end = _parse_range(wanted, stats.size_bytes)
    except _BadRange as bad:
        extra = {} if bad.satisfiable else {"Content-Range": f"bytes */{stats.size_bytes}"}
        return answers.answer(416, {"message": "Requested Range Not Satisfiable"}, extra)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{stats.size_bytes}"
    return _bytes(content, start, end, 206, headers)


def get_underlying_properties(call: Call) -> Response:
    """GET …/refs/{ref}/objects/underlyingProperties: the storage class is not known here."""
    call.catalog.reading.stat(call.repository, call.path["ref"], call.query.required("path"))
    return answers.answer(200, {"storage_class": None})


def _refuse_presign(call: Call) -> None:
    if call.query.flag("presign"):
        raise PresignUnsupportedError


def _object_headers(stats: ObjectStats) -> dict[str, str]:
    headers = {"ETag": f'"{stats.checksum}"', "Content-Type": _header_text(stats.content_type)}
    if stats.mtime is not None:
        headers["Last-Modified"] = format_datetime(stats.mtime, usegmt=True)
    return headers


def _header_text(content_type: str) -> str:
    """A content type that can stand in a header; what the uploader gave may be anything."""
    return (
        content_type if content_type.isascii() and content_type.isprintable() else "application/octet-stream"
    )


def _bytes(content: ObjectContent, start: int, end: int, status: int, headers: dict[str, str]) -> Response:
    """Send bytes `start` to `end`; the object is opened before the status, for it may be gone (410)."""
    headers["Content-Length"] = str(end - start)
    if end - start > READ_BYTES:
        return StreamingResponse(_pieces(content.stream(start, end - start)), status, headers)
    whole = start == 0 and end == content.stats.size_bytes
    return Response(content.read(start, None if whole else end - start), status, headers)


async def _pieces(stream: ObjectStream) -> AsyncIterator[bytes]:
    """Pull one piece at a time in a worker thread, as fast as the client takes them."""
    try:
        pieces = iter(stream)
        while piece := await run_in_threadpool(next, pieces, b""):
            yield piece
    finally:
        stream.close()


def _parse_range(header: str, size: int) -> tuple[int, int]:
    """One range of `bytes=`, as start and end (exclusive).

    Raises:
        _BadRange: no such form, several ranges, or outside of the object.
    """
    match = _RANGE.match(header)
    if match is None or not (match[1] or match[2]):
        raise _BadRange(satisfiable=True)
    if not match[1]:
        suffix = int(match[2])
        if suffix == 0 or size == 0:
            raise _BadRange(satisfiable=False)
        return max(0, size - suffix), size
    start = int(match[1])
    last = int(match[2]) if match[2] else size - 1
    if start >= size:
        raise _BadRange(satisfiable=False)
    if last < start:
        raise _BadRange(satisfiable=True)
    return start, min(last + 1, size)
