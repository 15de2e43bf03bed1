"""Objects: read whole or in byte ranges, with conditional requests; put, copied, deleted one or many.

Source: S3 API reference "GetObject", "HeadObject", "PutObject", "CopyObject", "DeleteObject", "DeleteObjects"; RFC 9110
sections 13 and 14; design "Uncommitted garbage collector", S3 Gateway CopyObject; lakeFS pkg/gateway/operations.
"""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from dredge.storage import ObjectStream
from lakefs_embedded.catalog import ObjectStats
from lakefs_embedded.errors import BranchNotFoundError, GravelerError, MissingError
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import S3Error, to_s3_error
from lakefs_embedded.gateway.requests import S3Request, Target, metadata_headers, read_metadata
from lakefs_embedded.gateway.responses import Node, fields, local_name, parse, timestamp

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
            headers[header] = header_text(request.query[name])
    if end - start > READ_BYTES:
        return StreamingResponse(stream_chunks(content.stream(start, end - start)), status, headers)
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
        "Content-Type": header_text(stats.content_type or "application/octet-stream"),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
        **metadata_headers(stats.metadata),
    }
    if stats.mtime is not None:
        headers["Last-Modified"] = format_datetime(stats.mtime.replace(microsecond=0), usegmt=True)
    return headers


def header_text(text: str) -> str:
    """Return a text as the value of a header; uploaders may set any as a content type."""
    return text if text.isascii() and text.isprintable() else "application/octet-stream"


async def stream_chunks(stream: ObjectStream) -> AsyncIterator[bytes]:
    """Read an open object in a worker thread, and close it."""
    try:
        chunks = iter(stream)
        while chunk := await run_in_threadpool(next, chunks, b""):
            yield chunk
    finally:
        stream.close()


DELETE_MAX = 1000


def put_object(request: S3Request) -> Response:
    """PUT /<repository>/<branch>/<path>: the body, or a copy of the x-amz-copy-source."""
    source = request.copy_source()
    if source is not None:
        return _copy_object(request, source)
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.refuse_read_only()
    headers = {name for name, _ in request.raw.headers}
    if b"content-length" not in headers and b"transfer-encoding" not in headers:
        raise S3Error("MissingContentLength")
    made = request.catalog.objects.upload_object(
        target.repository,
        target.ref,
        target.path,
        request.content(),
        content_type=request.header("content-type"),
        metadata=read_metadata(request.raw),
        if_none_match=must_be_new(request),
    )
    return responses.empty(200, {"ETag": f'"{made.checksum}"'})


def must_be_new(request: S3Request) -> bool:
    """Whether a write must fail if the path exists (`If-None-Match: *`).

    lakeFS supports no other condition; ignoring it would be unsafe, so it raises NotImplemented.
    """
    header = request.header("if-none-match")
    if request.header("if-match") or header not in ("", "*"):
        raise S3Error("NotImplemented", 'The only supported condition of a write is "If-None-Match: *".')
    return header == "*"


def delete_object(request: S3Request) -> Response:
    """DELETE /<repository>/<branch>/<path>: 204, also if it does not exist."""
    request.require("fs:DeleteObject", request.target.arn)
    request.refuse_read_only()
    if request.query.get("versionId", "null") != "null":
        raise S3Error("NotImplemented", "Object versions are not supported.")
    if request.header("if-match"):
        raise S3Error("NotImplemented", "Conditional deletes are not supported.")
    try:
        request.catalog.objects.delete_object(request.repository, request.target.ref, request.target.path)
    except BranchNotFoundError:
        _refuse_if_readable(request, request.target)
    return responses.empty(204)


def delete_objects(request: S3Request) -> Response:
    """POST /<repository>?delete: up to 1,000 keys, each with its own outcome."""
    request.refuse_read_only()
    document = parse(request.xml(), "Delete")
    quiet = fields(document).get("Quiet", "").strip().lower() == "true"
    listed = [fields(child) for child in document if local_name(child) == "Object"]
    if not 1 <= len(listed) <= DELETE_MAX or any(not each.get("Key") for each in listed):
        raise S3Error("MalformedXML")
    failed: dict[str, S3Error] = {}
    by_ref: dict[str, list[str]] = {}
    for each in listed:
        target = Target.of_key(request.repository, each["Key"])
        if each.get("VersionId", "null") not in ("", "null"):
            failed[each["Key"]] = S3Error("NotImplemented", "Object versions are not supported.")
        elif not request.accounts.allows(request.user, "fs:DeleteObject", target.arn):
            failed[each["Key"]] = S3Error("AccessDenied")
        elif target.path:  # file system clients delete "main/" as a folder marker: it succeeds without effect
            by_ref.setdefault(target.ref, []).append(target.path)
    for ref, paths in by_ref.items():
        for path, error in _delete_paths(request, ref, paths).items():
            failed[f"{ref}/{path}"] = error
    return responses.document("DeleteResult", *_outcomes([each["Key"] for each in listed], failed, quiet))


def _delete_paths(request: S3Request, ref: str, paths: list[str]) -> dict[str, S3Error]:
    try:
        errors = request.catalog.objects.delete_objects(request.repository, ref, paths)
    except BranchNotFoundError:
        failed = {}
        for path in paths:
            try:
                _refuse_if_readable(request, Target(request.repository, ref, path, True))
            except S3Error as error:
                failed[path] = error
        return failed
    except GravelerError as error:
        return dict.fromkeys(paths, to_s3_error(error, reading=False))
    codes = {403: "AccessDenied", 404: None, 400: "KeyTooLongError", 429: "SlowDown", 503: "SlowDown"}
    return {
        each.path: S3Error(code, each.message)
        for each in errors
        if (code := codes.get(each.status_code, "InternalError")) is not None
    }


def _outcomes(keys: list[str], failed: dict[str, S3Error], quiet: bool) -> list[Node]:
    nodes: list[Node] = []
    for key in dict.fromkeys(keys):
        error = failed.get(key)
        if error is not None:
            fields_of_error: list[Node] = [("Key", key), ("Code", error.code), ("Message", str(error))]
            nodes.append(("Error", fields_of_error))
        elif not quiet:
            nodes.append(("Deleted", [("Key", key)]))
    return nodes


def _refuse_if_readable(request: S3Request, target: Target) -> None:
    if request.follows_lakefs:  # lakeFS ignores such a deletion
        return
    try:
        request.catalog.reading.stat(target.repository, target.ref, target.path)
    except MissingError:
        return
    raise S3Error("MethodNotAllowed", f"{target.ref} is not a branch, so it cannot be changed.")


def _copy_object(request: S3Request, source: Target) -> Response:
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.require("fs:ReadObject", source.arn)
    request.refuse_read_only()
    request.catalog.branches.get_branch(target.repository, target.ref)
    if must_be_new(request):
        raise S3Error("NotImplemented", "Conditions on the target of a copy are not supported.")
    directive = request.header("x-amz-metadata-directive") or "COPY"
    if directive not in ("COPY", "REPLACE"):
        raise S3Error("InvalidArgument", "Unknown metadata directive.")
    if any(name.startswith(b"x-amz-copy-source-if-") for name, _ in request.raw.headers):
        check_source(request, request.catalog.reading.stat(source.repository, source.ref, source.path))
    try:
        made = _copied(request, source, directive)
    except MissingError:
        if request.follows_lakefs:
            raise S3Error("NoSuchKey") from None
        raise
    return responses.document(
        "CopyObjectResult", ("LastModified", timestamp(made.mtime)), ("ETag", f'"{made.checksum}"')
    )


def _copied(request: S3Request, source: Target, directive: str) -> ObjectStats:
    target = request.target
    if directive == "COPY" and source.repository == target.repository:
        return request.catalog.objects.copy_object(
            target.repository, target.ref, target.path, source.path, source_ref=source.ref
        )
    return _copy_bytes(request, source, replace=directive == "REPLACE")


def check_source(request: S3Request, stats: ObjectStats) -> None:
    """Check the conditions on a copy source; unlike on reads, each failure is a 412."""
    prefix = "x-amz-copy-source-"
    check_conditions(request, stats, prefix=prefix)
    if is_unchanged(request, stats, prefix=prefix):
        raise S3Error("PreconditionFailed")


def _copy_bytes(request: S3Request, source: Target, *, replace: bool) -> ObjectStats:
    content = request.catalog.reading.get_object(source.repository, source.ref, source.path)
    stats, target = content.stats, request.target
    with content.stream(0, None) as stream:
        return request.catalog.objects.upload_object(
            target.repository,
            target.ref,
            target.path,
            stream,
            content_type=request.header("content-type") if replace else stats.content_type,
            metadata=read_metadata(request.raw) if replace else stats.metadata,
        )
