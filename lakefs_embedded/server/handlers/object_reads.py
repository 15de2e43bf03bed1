"""Reads at any ref: stat, list and get objects."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from email.utils import format_datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from dredge.storage import ObjectStream
from lakefs_embedded.auth.permissions import Action, object_arn
from lakefs_embedded.catalog import ObjectContent, ObjectStats
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest

READ_BYTES = 1 << 20  # bytes; a larger response is streamed
_RANGE = re.compile(r"^bytes=\s*(\d*)\s*-\s*(\d*)\s*$", re.ASCII)
_INLINE = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp", "text/plain", "application/json"})


class _BadRange(Exception):
    """An invalid Range header; `satisfiable` is False if it is outside the object."""

    def __init__(self, satisfiable: bool) -> None:
        self.satisfiable = satisfiable


def stat_object(request: ApiRequest) -> Response:
    """GET …/refs/{ref}/objects/stat."""
    found = request.catalog.reading.stat(
        request.repository,
        request.path["ref"],
        request.query.required("path"),
        presign=request.query.flag("presign"),
    )
    metadata = found.metadata if request.query.flag("user_metadata", default=True) else {}
    return responses.json(200, serializers.object_stats(found, metadata=metadata))


def list_objects(request: ApiRequest) -> Response:
    """GET …/refs/{ref}/objects/ls; pre-signs the objects the user may read."""

    def may_read(path: str) -> bool:
        return request.allows(Action.READ_OBJECT, object_arn(request.repository, path))

    with_metadata = request.query.flag("user_metadata", default=True)
    found = request.catalog.reading.list_entries(
        request.repository,
        request.path["ref"],
        delimiter=request.query.text("delimiter"),
        presign=may_read if request.query.flag("presign") else None,
        **request.query.paging,
    )

    def serialize(stats: ObjectStats) -> dict[str, Any]:
        return serializers.object_stats(stats, metadata=stats.metadata or None if with_metadata else None)

    return responses.page(found, serialize)


def head_object(request: ApiRequest) -> Response:
    """HEAD …/refs/{ref}/objects: does not check whether the bytes exist."""
    stats = request.catalog.reading.stat(
        request.repository, request.path["ref"], request.query.required("path")
    )
    headers = {
        **_object_headers(stats),
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-store, must-revalidate",
        "Expires": "0",
    }
    wanted = request.headers.get("range")
    if wanted is None:
        return Response(None, 200, {**headers, "Content-Length": str(stats.size_bytes)})
    try:
        start, end = _parse_range(wanted, stats.size_bytes)
    except _BadRange:
        return responses.empty(416)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{stats.size_bytes}"
    return Response(None, 206, {**headers, "Content-Length": str(end - start)})


def get_object(request: ApiRequest) -> Response:
    """GET …/refs/{ref}/objects: the whole object (200), a range (206), 304, or a redirection to the store (302)."""
    content = request.catalog.reading.get_object(
        request.repository, request.path["ref"], request.query.required("path")
    )
    stats = content.stats
    headers = _object_headers(stats)
    if request.headers.get("if-none-match") == headers["ETag"]:
        return responses.empty(304)
    if request.query.flag("presign"):
        return responses.redirect(content.presign().url)
    headers["Cache-Control"] = "private, no-cache, no-store, must-revalidate"
    headers["Content-Disposition"] = "inline" if stats.content_type in _INLINE else "attachment"
    headers["X-Content-Type-Options"] = "nosniff"
    wanted = request.headers.get("range")
    if wanted is None:
        return _bytes(content, 0, stats.size_bytes, 200, headers)
    try:
        start, end = _parse_range(wanted, stats.size_bytes)
    except _BadRange as bad:
        extra = {} if bad.satisfiable else {"Content-Range": f"bytes */{stats.size_bytes}"}
        return responses.json(416, {"message": "Requested Range Not Satisfiable"}, extra)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{stats.size_bytes}"
    return _bytes(content, start, end, 206, headers)


def get_underlying_properties(request: ApiRequest) -> Response:
    """GET …/refs/{ref}/objects/underlyingProperties: the storage class is always null."""
    request.catalog.reading.stat(request.repository, request.path["ref"], request.query.required("path"))
    return responses.json(200, {"storage_class": None})


def _object_headers(stats: ObjectStats) -> dict[str, str]:
    headers = {"ETag": f'"{stats.checksum}"', "Content-Type": _header_text(stats.content_type)}
    if stats.mtime is not None:
        headers["Last-Modified"] = format_datetime(stats.mtime, usegmt=True)
    return headers


def _header_text(content_type: str) -> str:  # uploaders may set any text
    return (
        content_type if content_type.isascii() and content_type.isprintable() else "application/octet-stream"
    )


def _bytes(content: ObjectContent, start: int, end: int, status: int, headers: dict[str, str]) -> Response:
    headers["Content-Length"] = str(end - start)
    if end - start > READ_BYTES:  # the object is opened before the status is sent: it may be missing (410)
        return StreamingResponse(_chunks(content.stream(start, end - start)), status, headers)
    whole = start == 0 and end == content.stats.size_bytes
    return Response(content.read(start, None if whole else end - start), status, headers)


async def _chunks(stream: ObjectStream) -> AsyncIterator[bytes]:
    try:
        chunks = iter(stream)
        while chunk := await run_in_threadpool(next, chunks, b""):
            yield chunk
    finally:
        stream.close()


def _parse_range(header: str, size: int) -> tuple[int, int]:
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
