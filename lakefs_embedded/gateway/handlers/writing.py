"""Writes: put, copy, delete one object, delete many.

Source: S3 API reference "PutObject", "CopyObject", "DeleteObject", "DeleteObjects"; design "Uncommitted
garbage collector", S3 Gateway CopyObject; lakeFS pkg/gateway/operations.
"""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.catalog import ObjectStats
from lakefs_embedded.errors import BranchNotFoundError, GravelerError, MissingError
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import S3Error, to_s3_error
from lakefs_embedded.gateway.handlers.reading import check_conditions, is_unchanged
from lakefs_embedded.gateway.requests import S3Request, Target, read_metadata
from lakefs_embedded.gateway.responses import Node, fields, local_name, parse, timestamp

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
        elif not request.access_control.allows(request.user, "fs:DeleteObject", target.arn):
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
