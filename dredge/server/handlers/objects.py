"""Objects of a branch: upload, stage, link, copy, delete, metadata."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.responses import Response

from dredge.auth import Action, object_arn
from dredge.graveler.catalog import DeleteError
from dredge.graveler.errors import BranchNotFoundError, GravelerError, PreconditionError, UnsupportedError
from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.failures import RequestError
from dredge.server.uploads import FormContent

DEFAULT_CONTENT_TYPE = "application/octet-stream"
DELETE_MAX = 1000
METADATA_PREFIX = "x-lakefs-meta-"


def upload_object(call: Call) -> Response:
    """POST …/branches/{branch}/objects: raw bytes, or a form with the field `content`, streamed.

    The catalog looks at the branch and at If-None-Match before it takes the first byte.
    """
    path = call.query.required("path")
    only_new = _only_new(call.headers)
    content_type = call.headers.get("content-type") or DEFAULT_CONTENT_TYPE
    content: bytes | Iterator[bytes] = call.content
    if content_type.partition(";")[0].strip().lower() == "multipart/form-data":
        pieces = iter((content,)) if isinstance(content, bytes) else content
        form = FormContent(pieces, content_type)
        content_type, content = form.open() or DEFAULT_CONTENT_TYPE, form
    metadata = _metadata_headers(call.headers)
    try:
        made = call.catalog.objects.upload_object(
            call.repository,
            call.branch,
            path,
            content,
            content_type=content_type,
            metadata=metadata,
            if_none_match=only_new,
            force=call.query.flag("force"),
        )
    except PreconditionError:
        raise PreconditionError("path already exists") from None
    except BranchNotFoundError:
        raise BranchNotFoundError(f"branch '{call.branch}' not found") from None
    return answers.answer(201, shapes.object_stats(made, metadata=made.metadata))


def stage_object(call: Call) -> Response:
    """PUT …/branches/{branch}/objects (deprecated)."""
    body = call.body
    made = call.catalog.objects.stage_object(
        call.repository,
        call.branch,
        call.query.required("path"),
        physical_address=body["physical_address"],
        checksum=body["checksum"],
        size_bytes=body["size_bytes"],
        mtime=call.moment("mtime"),
        metadata=body.get("metadata"),
        content_type=body.get("content_type") or "",
        force=call.flag("force"),
    )
    return answers.answer(201, shapes.object_stats(made, metadata=None))


def get_physical_address(call: Call) -> Response:
    """GET …/branches/{branch}/staging/backing."""
    path = call.query.required("path")
    if call.query.flag("presign"):
        # A real server without pre-signing answers 500 here, and 400 where it reads.
        return answers.error(500, "operation not supported")
    address = call.catalog.addresses.get_physical_address(call.repository, call.branch, path)
    return answers.answer(200, {"physical_address": address, "presigned_url": None})


def link_physical_address(call: Call) -> Response:
    """PUT …/branches/{branch}/staging/backing."""
    path = call.query.required("path")
    if _only_new(call.headers):
        raise UnsupportedError("If-None-Match on linking: not implemented")
    body = call.body
    address = body["staging"].get("physical_address") or ""
    checksum = body["checksum"].strip(' "')
    if not checksum:
        raise RequestError("checksum is required")
    made = call.catalog.addresses.link_physical_address(
        call.repository,
        call.branch,
        path,
        physical_address=address,
        checksum=checksum,
        size_bytes=body["size_bytes"],
        mtime=call.moment("mtime"),
        metadata=body.get("user_metadata"),
        content_type=body.get("content_type") or "",
        force=call.flag("force"),
    )
    return answers.answer(200, shapes.object_stats(made, metadata=made.metadata))


def delete_object(call: Call) -> Response:
    """DELETE …/branches/{branch}/objects."""
    call.catalog.objects.delete_object(
        call.repository,
        call.branch,
        call.query.required("path"),
        no_tombstone=call.query.flag("no_tombstone"),
        force=call.query.flag("force"),
    )
    return answers.empty()


def delete_objects(call: Call) -> Response:
    """POST …/branches/{branch}/objects/delete: 200 whatever happened; the errors are in the body.

    Each path needs its own permission, and one that lacks it is an error of its own, as on a real server.
    """
    paths = call.body["paths"]
    if len(paths) > DELETE_MAX:
        raise RequestError(f"request size exceeded, max paths is set to {DELETE_MAX}")
    force = call.query.flag("force")
    allowed = {path: _may_delete(call, path) for path in paths}
    refused = [path for path in paths if not allowed[path]]
    paths = [path for path in paths if allowed[path]]
    if call.query.flag("no_tombstone"):
        failed = [error for path in paths if (error := _delete_one(call, path, force)) is not None]
    else:
        failed = call.catalog.objects.delete_objects(call.repository, call.branch, paths, force=force)
    failed += [DeleteError(path, 401, "Unauthorized") for path in refused]
    return answers.answer(200, {"errors": [shapes.delete_error(each) for each in failed]})


def check_upload_allowed(call: Call) -> Response:
    """GET …/branches/{branch}/objects/stage_allowed: whoever gets here may."""
    call.catalog.repositories.get_repository(call.repository)
    return answers.empty()


def _may_delete(call: Call, path: str) -> bool:
    return call.allowed(Action.DELETE_OBJECT, object_arn(call.repository, path))


def copy_object(call: Call) -> Response:
    """POST …/branches/{branch}/objects/copy."""
    body = call.body
    made = call.catalog.objects.copy_object(
        call.repository,
        call.branch,
        call.query.required("dest_path"),
        body["src_path"],
        source_ref=body.get("src_ref") or None,
        shallow=call.flag("shallow"),
        force=call.flag("force"),
    )
    return answers.answer(201, shapes.object_stats(made, metadata=made.metadata))


def update_object_user_metadata(call: Call) -> Response:
    """PUT …/branches/{branch}/objects/stat/user_metadata: 204, though the description says 201."""
    call.catalog.objects.update_user_metadata(
        call.repository, call.branch, call.query.required("path"), call.body["set"]
    )
    return answers.empty()


def _delete_one(call: Call, path: str, force: bool) -> DeleteError | None:
    try:
        call.catalog.objects.delete_object(call.repository, call.branch, path, no_tombstone=True, force=force)
    except GravelerError as failure:
        return DeleteError(path, failure.status, str(failure))
    return None


def _only_new(headers: Headers) -> bool:
    """Read If-None-Match of a write: only `*` has a meaning; If-Match has none here."""
    if headers.get("if-match") is not None:
        raise UnsupportedError("If-Match on writing an object: not implemented")
    value = headers.get("if-none-match")
    if value not in (None, "", "*"):
        raise RequestError('unsupported value for If-None-Match, only "*" is supported')
    return value == "*"


def _metadata_headers(headers: Headers) -> dict[str, str]:
    """User metadata of an upload. Header bytes are UTF-8 where they can be, as the server keeps them."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers.raw:
        name = raw_name.decode("latin-1").lower()
        if name.startswith(METADATA_PREFIX):
            try:
                value = raw_value.decode()
            except UnicodeDecodeError:
                value = raw_value.decode("latin-1")
            found.setdefault(name.removeprefix(METADATA_PREFIX), value)
    return found
