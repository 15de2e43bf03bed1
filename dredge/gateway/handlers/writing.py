"""Writing objects: put, copy, delete one, delete many.

Source: S3 API reference "PutObject", "CopyObject", "DeleteObject", "DeleteObjects"; design "Uncommitted
garbage collector", S3 Gateway CopyObject; lakeFS pkg/gateway/operations.
"""

from __future__ import annotations

from starlette.responses import Response

from dredge.gateway import answers
from dredge.gateway.failures import S3Error, to_s3
from dredge.gateway.handlers.reading import check_conditions, is_unchanged
from dredge.gateway.metadata import read_metadata
from dredge.gateway.requests import S3Request, Target
from dredge.gateway.xml import Node, fields, local_name, moment, read
from dredge.graveler.catalog import ObjectStats
from dredge.graveler.errors import BranchNotFoundError, GravelerError, MissingError

DELETE_MAX = 1000


def put_object(request: S3Request) -> Response:
    """PUT /<repository>/<branch>/<path>: the body, or the object that x-amz-copy-source names."""
    source = request.copy_source()
    if source is not None:
        return _copy_object(request, source)
    target = request.target
    request.require("fs:WriteObject", target.arn)
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
        if_none_match=only_new(request),
    )
    return answers.empty(200, {"ETag": f'"{made.checksum}"'})


def only_new(request: S3Request) -> bool:
    """Whether a write shall fail when the path exists: `If-None-Match: *`, the one condition lakeFS has.

    Raises:
        S3Error: NotImplemented, any other condition; it must not be taken as fulfilled.
    """
    header = request.header("if-none-match")
    if request.header("if-match") or header not in ("", "*"):
        raise S3Error("NotImplemented", 'Of the conditions on writing only "If-None-Match: *" is supported.')
    return header == "*"


def delete_object(request: S3Request) -> Response:
    """DELETE /<repository>/<branch>/<path>: 204, also when there was nothing."""
    request.require("fs:DeleteObject", request.target.arn)
    if request.query.get("versionId", "null") != "null":
        raise S3Error("NotImplemented", "Objects have no versions here.")
    if request.header("if-match"):
        raise S3Error("NotImplemented", "Deleting on a condition is not supported.")
    try:
        request.catalog.objects.delete_object(request.repository, request.target.ref, request.target.path)
    except BranchNotFoundError:
        _refuse_if_readable(request, request.target)
    return answers.empty(204)


def delete_objects(request: S3Request) -> Response:
    """POST /<repository>?delete: up to 1,000 keys, each with its own outcome."""
    document = read(request.xml(), "Delete")
    quiet = fields(document).get("Quiet", "").strip().lower() == "true"
    listed = [fields(child) for child in document if local_name(child) == "Object"]
    if not 1 <= len(listed) <= DELETE_MAX or any(not each.get("Key") for each in listed):
        raise S3Error("MalformedXML")
    request.catalog.repositories.get_repository(request.repository)
    failed: dict[str, S3Error] = {}
    by_ref: dict[str, list[str]] = {}
    for each in listed:
        target = Target.of_key(request.repository, each["Key"])
        if each.get("VersionId", "null") not in ("", "null"):
            failed[each["Key"]] = S3Error("NotImplemented", "Objects have no versions here.")
        elif not request.gatekeeper.allows(request.user, "fs:DeleteObject", target.arn):
            failed[each["Key"]] = S3Error("AccessDenied")
        elif target.path:  # "main/" is what file systems take for a folder: deleting nothing succeeds
            by_ref.setdefault(target.ref, []).append(target.path)
    for ref, paths in by_ref.items():
        for path, failure in _delete_paths(request, ref, paths).items():
            failed[f"{ref}/{path}"] = failure
    return answers.document("DeleteResult", *_outcomes([each["Key"] for each in listed], failed, quiet))


def _delete_paths(request: S3Request, ref: str, paths: list[str]) -> dict[str, S3Error]:
    """Delete paths of one branch; what failed, by path."""
    try:
        errors = request.catalog.objects.delete_objects(request.repository, ref, paths)
    except BranchNotFoundError:
        failed = {}
        for path in paths:
            try:
                _refuse_if_readable(request, Target(request.repository, ref, path, True))
            except S3Error as failure:
                failed[path] = failure
        return failed
    except GravelerError as failure:
        return dict.fromkeys(paths, to_s3(failure, reading=False))
    codes = {403: "AccessDenied", 404: None, 400: "KeyTooLongError", 429: "SlowDown", 503: "SlowDown"}
    return {
        each.path: S3Error(code, each.message)
        for each in errors
        if (code := codes.get(each.status_code, "InternalError")) is not None
    }


def _outcomes(keys: list[str], failed: dict[str, S3Error], quiet: bool) -> list[Node]:
    nodes: list[Node] = []
    for key in dict.fromkeys(keys):
        failure = failed.get(key)
        if failure is not None:
            error: list[Node] = [("Key", key), ("Code", failure.code), ("Message", str(failure))]
            nodes.append(("Error", error))
        elif not quiet:
            nodes.append(("Deleted", [("Key", key)]))
    return nodes


def _refuse_if_readable(request: S3Request, target: Target) -> None:
    """A ref without a branch: nothing to delete where nothing is, and no way to where something is (a tag)."""
    try:
        request.catalog.reading.stat(target.repository, target.ref, target.path)
    except MissingError:
        return
    raise S3Error("MethodNotAllowed", f"{target.ref} is no branch, so nothing can be changed in it.")


def _copy_object(request: S3Request, source: Target) -> Response:
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.require("fs:ReadObject", source.arn)
    if only_new(request):
        raise S3Error("NotImplemented", "Copying on a condition of the target is not supported.")
    directive = request.header("x-amz-metadata-directive") or "COPY"
    if directive not in ("COPY", "REPLACE"):
        raise S3Error("InvalidArgument", "Unknown metadata directive.")
    if any(name.startswith(b"x-amz-copy-source-if-") for name, _ in request.raw.headers):
        check_source(request, request.catalog.reading.stat(source.repository, source.ref, source.path))
    if directive == "COPY" and source.repository == target.repository:
        made = request.catalog.objects.copy_object(
            target.repository, target.ref, target.path, source.path, source_ref=source.ref
        )
    else:
        made = _copy_bytes(request, source, replace=directive == "REPLACE")
    return answers.document(
        "CopyObjectResult", ("LastModified", moment(made.mtime)), ("ETag", f'"{made.checksum}"')
    )


def check_source(request: S3Request, stats: ObjectStats) -> None:
    """The conditions on what is copied; here each that does not hold is a 412.

    Raises:
        S3Error: PreconditionFailed.
    """
    prefix = "x-amz-copy-source-"
    check_conditions(request, stats, prefix=prefix)
    if is_unchanged(request, stats, prefix=prefix):
        raise S3Error("PreconditionFailed")


def _copy_bytes(request: S3Request, source: Target, *, replace: bool) -> ObjectStats:
    """Copy from another repository, or with other metadata: through this server, in pieces."""
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
