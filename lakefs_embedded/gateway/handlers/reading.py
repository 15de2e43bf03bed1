"""Reads: objects or byte ranges, with conditional requests.

Source: S3 API reference "GetObject", "HeadObject"; RFC 9110 sections 13 and 14.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from dredge.storage import ObjectStream
from lakefs_embedded.catalog import ObjectStats
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.requests import S3Request, metadata_headers

READ_BYTES = 256 << 10  # bytes; a larger response is streamed
_RANGE = re.compile(r"bytes=\s*(\d*)\s*-\s*(\d*)\s*", re.ASCII)
# Part of the User-Agent of clients that follow a redirection to a pre-signed URL of the store.
_REDIRECTED = "s3RedirectionSupport"
# Query parameters that set a response header.
_OVERRIDES = {
    "response-content-type": "Content-Type",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
    "response-content-language": "Content-Language",
    "response-cache-control": "Cache-Control",
    "response-expires": "Expires",
}


def head_object(request: S3Request) -> Response:
    """HEAD /<repository>/<ref>/<path>."""
    target = request.target
    request.require("fs:ReadObject", target.arn)
    stats = request.catalog.reading.stat(target.repository, target.ref, target.path)
    headers = _headers(request, stats)
    if _is_unchanged(request, stats):
        return responses.empty(304, headers)
    start, end, status = _span(request, stats.size_bytes, headers)
    return responses.empty(status, {**headers, "Content-Length": str(end - start)})


def get_object(request: S3Request) -> Response:
    """GET /<repository>/<ref>/<path>."""
    target = request.target
    request.require("fs:ReadObject", target.arn)
    content = request.catalog.reading.get_object(target.repository, target.ref, target.path)
    stats = content.stats
    headers = _headers(request, stats)
    if _is_unchanged(request, stats):
        return responses.empty(304, headers)
    start, end, status = _span(request, stats.size_bytes, headers)
    if _REDIRECTED in request.header("user-agent"):
        return responses.empty(307, {"Location": content.presign().url})
    headers["Content-Length"] = str(end - start)
    for name, header in _OVERRIDES.items():
        if name in request.query:
            headers[header] = _header_text(request.query[name])
    if end - start > READ_BYTES:
        return StreamingResponse(_chunks(content.stream(start, end - start)), status, headers)
    whole = start == 0 and end == stats.size_bytes
    return Response(content.read(start, None if whole else end - start), status, headers)


def get_object_tagging(request: S3Request) -> Response:
    """GET …?tagging: always an empty set."""
    request.require("fs:ReadObject", request.target.arn)
    request.catalog.reading.stat(request.repository, request.target.ref, request.target.path)
    return responses.document("Tagging", ("TagSet", []))


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Parse a single `bytes=` range into start (inclusive) and end (exclusive).

    None for a malformed header or several ranges: the whole object is sent. Raises S3Error: outside the object.
    """
    match = _RANGE.fullmatch(header)
    if match is None or not (match[1] or match[2]):
        return None
    beyond = S3Error("InvalidRange", headers={"Content-Range": f"bytes */{size}"})
    if not match[1]:
        suffix = int(match[2])
        if suffix == 0 or size == 0:
            raise beyond
        return max(0, size - suffix), size
    start, last = int(match[1]), int(match[2]) if match[2] else size - 1
    if match[2] and last < start:
        return None
    if start >= size:
        raise beyond
    return start, min(last + 1, size)


def check_conditions(request: S3Request, stats: ObjectStats, *, prefix: str = "") -> None:
    """Check If-Match or, without it, If-Unmodified-Since; header names of a copy source have a prefix."""
    match = request.header(f"{prefix}if-match")
    since = _date(request.header(f"{prefix}if-unmodified-since"))
    if match:
        if not _etag_listed(match, stats):
            raise S3Error("PreconditionFailed")
    elif since is not None and _changed_after(stats, since):
        raise S3Error("PreconditionFailed")


def is_unchanged(request: S3Request, stats: ObjectStats, *, prefix: str = "") -> bool:
    """Whether If-None-Match lists the object's ETag or, without it, the object is older than If-Modified-Since."""
    match = request.header(f"{prefix}if-none-match")
    if match:
        return _etag_listed(match, stats)
    since = _date(request.header(f"{prefix}if-modified-since"))
    return since is not None and not _changed_after(stats, since)


def _is_unchanged(request: S3Request, stats: ObjectStats) -> bool:
    check_conditions(request, stats)
    return is_unchanged(request, stats)


def _etag_listed(header: str, stats: ObjectStats) -> bool:
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")]
    return "*" in tags or stats.checksum in tags


def _changed_after(stats: ObjectStats, since: datetime) -> bool:
    # Headers have whole seconds, entries microseconds.
    return stats.mtime is not None and stats.mtime.replace(microsecond=0) > since


def _date(header: str) -> datetime | None:
    if not header:
        return None
    try:
        found = parsedate_to_datetime(header)
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC)


def _span(request: S3Request, size: int, headers: dict[str, str]) -> tuple[int, int, int]:
    wanted = request.header("range")
    span = parse_range(wanted, size) if wanted else None
    if span is None:
        return 0, size, 200
    headers["Content-Range"] = f"bytes {span[0]}-{span[1] - 1}/{size}"
    return *span, 206


def _headers(request: S3Request, stats: ObjectStats) -> dict[str, str]:
    headers = {
        "ETag": f'"{stats.checksum}"',
        "Accept-Ranges": "bytes",
        "Content-Type": _header_text(stats.content_type or "application/octet-stream"),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
        **metadata_headers(stats.metadata),
    }
    if stats.mtime is not None:
        headers["Last-Modified"] = format_datetime(stats.mtime.replace(microsecond=0), usegmt=True)
    return headers


def _header_text(text: str) -> str:
    return text if text.isascii() and text.isprintable() else "application/octet-stream"


async def _chunks(stream: ObjectStream) -> AsyncIterator[bytes]:
    try:
        chunks = iter(stream)
        while chunk := await run_in_threadpool(next, chunks, b""):
            yield chunk
    finally:
        stream.close()
