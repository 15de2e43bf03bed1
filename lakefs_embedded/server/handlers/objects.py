"""Objects: stat, list and get at any ref; upload, stage, link, copy, delete, and user metadata on a branch."""

import re
from collections.abc import Iterator
from dataclasses import replace
from email.utils import format_datetime
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse

from dredge.lakefs.files.addresses import is_parsed_by_server, reworded
from lakefs_embedded.auth.permissions import Action, object_arn
from lakefs_embedded.catalog import DeleteError, ObjectContent, ObjectStats, PresignUnsupportedError
from lakefs_embedded.errors import BranchNotFoundError, GravelerError, PreconditionError, UnsupportedError
from lakefs_embedded.gateway.handlers.objects import header_text, stream_chunks
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest
from lakefs_embedded.server.responses import RequestError
from lakefs_embedded.server.uploads import FormContent

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
    headers = {"ETag": f'"{stats.checksum}"', "Content-Type": header_text(stats.content_type)}
    if stats.mtime is not None:
        headers["Last-Modified"] = format_datetime(stats.mtime, usegmt=True)
    return headers


def _bytes(content: ObjectContent, start: int, end: int, status: int, headers: dict[str, str]) -> Response:
    headers["Content-Length"] = str(end - start)
    if end - start > READ_BYTES:  # the object is opened before the status is sent: it may be missing (410)
        return StreamingResponse(stream_chunks(content.stream(start, end - start)), status, headers)
    whole = start == 0 and end == content.stats.size_bytes
    return Response(content.read(start, None if whole else end - start), status, headers)


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


DEFAULT_CONTENT_TYPE = "application/octet-stream"
DELETE_MAX = 1000
# Prefix of a header, and of the metadata key that it sets. lakectl and other clients keep the times, permissions and
# link targets of their files under the second kind of name, which no user header can spell.
METADATA_PREFIXES = {"x-lakefs-meta-": "", "x-lakefs-internal-": "::lakefs::"}


def upload_object(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/objects: raw bytes, or a form with the field `content`, streamed.

    The catalog checks the branch and If-None-Match before it reads the first byte.
    """
    path = request.query.required("path")
    must_be_new = _must_be_new(request.headers)
    content_type = request.headers.get("content-type") or DEFAULT_CONTENT_TYPE
    content: bytes | Iterator[bytes] = request.content
    if content_type.partition(";")[0].strip().lower() == "multipart/form-data":
        chunks = iter((content,)) if isinstance(content, bytes) else content
        form = FormContent(chunks, content_type)
        content_type, content = form.open() or DEFAULT_CONTENT_TYPE, form
    metadata = _metadata_headers(request.headers)
    try:
        stats = request.catalog.objects.upload_object(
            request.repository,
            request.branch,
            path,
            content,
            content_type=content_type,
            metadata=metadata,
            if_none_match=must_be_new,
            force=request.query.flag("force"),
        )
    except PreconditionError:
        raise PreconditionError("path already exists") from None
    except BranchNotFoundError:
        raise BranchNotFoundError(f"branch '{request.branch}' not found") from None
    return responses.json(201, serializers.object_stats(stats, metadata=stats.metadata))


def stage_object(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}/objects (deprecated); the response has the address as parsed by the server."""
    body = request.body
    follows_lakefs = request.backend.settings.catalog.profile == "lakefs"
    address = body["physical_address"]
    request.catalog.repositories.get_repository(request.repository)
    if follows_lakefs and not is_parsed_by_server(address):
        return responses.error(500, f"could not parse URI: {address!r}")
    request.backend.namespaces.check_address(address)
    stats = request.catalog.objects.stage_object(
        request.repository,
        request.branch,
        request.query.required("path"),
        physical_address=address,
        checksum=body["checksum"],
        size_bytes=body["size_bytes"],
        mtime=request.timestamp("mtime"),
        metadata=body.get("metadata"),
        content_type=body.get("content_type") or "",
        force=request.flag("force"),
    )
    if follows_lakefs and request.backend.settings.blockstore != "local":
        stats = replace(stats, physical_address=reworded(address))
    return responses.json(201, serializers.object_stats(stats, metadata=None))


def get_physical_address(request: ApiRequest) -> Response:
    """GET …/branches/{branch}/staging/backing."""
    addresses = request.catalog.addresses
    address = addresses.get_physical_address(
        request.repository, request.branch, request.query.required("path")
    )
    if not request.query.flag("presign"):
        return responses.json(200, {"physical_address": address, "presigned_url": None})
    try:
        signed = addresses.presign_write(request.repository, address)
    except PresignUnsupportedError as error:
        # A real server without pre-signing answers 500 here, but 400 on reads.
        return responses.error(500, str(error))
    expiry = serializers.seconds(signed.expires)
    return responses.json(
        200,
        {"physical_address": address, "presigned_url": signed.url, "presigned_url_expiry": expiry},
    )


def link_physical_address(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}/staging/backing; the response has the address as given."""
    path = request.query.required("path")
    if _must_be_new(request.headers):
        raise UnsupportedError("If-None-Match when linking an object: not implemented")
    body = request.body
    address = body["staging"].get("physical_address") or ""
    checksum = body["checksum"].strip(' "')
    if not checksum:
        raise RequestError("checksum is required")
    stats = request.catalog.addresses.link_physical_address(
        request.repository,
        request.branch,
        path,
        physical_address=address,
        checksum=checksum,
        size_bytes=body["size_bytes"],
        mtime=request.timestamp("mtime"),
        metadata=body.get("user_metadata"),
        content_type=body.get("content_type") or "",
        force=request.flag("force"),
    )
    stats = replace(stats, physical_address=address)
    return responses.json(200, serializers.object_stats(stats, metadata=stats.metadata))


def delete_object(request: ApiRequest) -> Response:
    """DELETE …/branches/{branch}/objects."""
    request.catalog.objects.delete_object(
        request.repository,
        request.branch,
        request.query.required("path"),
        no_tombstone=request.query.flag("no_tombstone"),
        force=request.query.flag("force"),
    )
    return responses.empty()


def delete_objects(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/objects/delete: always 200, with an error for each failed path.

    As on a real server, the permission is checked per path; a missing one is such an error.
    """
    paths = request.body["paths"]
    if len(paths) > DELETE_MAX:
        raise RequestError(f"request size exceeded, max paths is set to {DELETE_MAX}")
    force = request.query.flag("force")
    allowed = {path: _may_delete(request, path) for path in paths}
    refused = [path for path in paths if not allowed[path]]
    paths = [path for path in paths if allowed[path]]
    if request.query.flag("no_tombstone"):
        failed = [error for path in paths if (error := _delete_one(request, path, force)) is not None]
    else:
        failed = request.catalog.objects.delete_objects(
            request.repository, request.branch, paths, force=force
        )
    failed += [DeleteError(path, 401, "Unauthorized") for path in refused]
    return responses.json(200, {"errors": [serializers.delete_error(each) for each in failed]})


def check_upload_allowed(request: ApiRequest) -> Response:
    """GET …/branches/{branch}/objects/stage_allowed: the route's permission is the answer."""
    request.catalog.repositories.get_repository(request.repository)
    return responses.empty()


def _may_delete(request: ApiRequest, path: str) -> bool:
    return request.allows(Action.DELETE_OBJECT, object_arn(request.repository, path))


def copy_object(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/objects/copy."""
    body = request.body
    stats = request.catalog.objects.copy_object(
        request.repository,
        request.branch,
        request.query.required("dest_path"),
        body["src_path"],
        source_ref=body.get("src_ref") or None,
        shallow=request.flag("shallow"),
        force=request.flag("force"),
    )
    return responses.json(201, serializers.object_stats(stats, metadata=stats.metadata))


def update_object_user_metadata(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}/objects/stat/user_metadata: 204, although the specification says 201."""
    request.catalog.objects.update_user_metadata(
        request.repository, request.branch, request.query.required("path"), request.body["set"]
    )
    return responses.empty()


def _delete_one(request: ApiRequest, path: str, force: bool) -> DeleteError | None:
    try:
        request.catalog.objects.delete_object(
            request.repository, request.branch, path, no_tombstone=True, force=force
        )
    except GravelerError as error:
        return DeleteError(path, error.status, str(error))
    return None


def _must_be_new(headers: Headers) -> bool:
    if headers.get("if-match") is not None:
        raise UnsupportedError("If-Match when writing an object: not implemented")
    value = headers.get("if-none-match")
    if value not in (None, "", "*"):
        raise RequestError('unsupported value for If-None-Match, only "*" is supported')
    return value == "*"


def _metadata_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in headers.raw:
        key = _metadata_key(raw_name.decode("latin-1").lower())
        if key is not None:
            try:
                value = raw_value.decode()
            except UnicodeDecodeError:
                value = raw_value.decode("latin-1")
            found.setdefault(key, value)
    return found


def _metadata_key(header: str) -> str | None:
    for prefix, stored in METADATA_PREFIXES.items():
        if header.startswith(prefix):
            return stored + header.removeprefix(prefix)
    return None
