"""Every operation: HTTP method, level of the URL, query parameter, handler.

A query parameter for an unsupported subresource (`?acl`, `?policy`, …) is refused: the plain operation of `PUT ?acl`
would overwrite the object with its access list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import Response

from lakefs_embedded.gateway.errors import S3Error, UnknownOperationError
from lakefs_embedded.gateway.handlers import listing, multipart, reading, writing
from lakefs_embedded.gateway.requests import S3Request, Target
from lakefs_embedded.refs.records import PATH_BYTES_MAX

type Handler = Callable[[S3Request], Response]

SERVICE, BUCKET, OBJECT = "service", "bucket", "object"

# (method, level, query parameter, handler): the first matching row is used, so rows with a parameter come first.
OPERATIONS: tuple[tuple[str, str, str, Handler], ...] = (
    ("GET", OBJECT, "uploadId", multipart.list_parts),
    ("GET", OBJECT, "tagging", reading.get_object_tagging),
    ("GET", OBJECT, "", reading.get_object),
    ("HEAD", OBJECT, "", reading.head_object),
    ("PUT", OBJECT, "uploadId", multipart.upload_part),
    ("PUT", OBJECT, "", writing.put_object),
    ("POST", OBJECT, "uploads", multipart.create_multipart_upload),
    ("POST", OBJECT, "uploadId", multipart.complete_multipart_upload),
    ("DELETE", OBJECT, "uploadId", multipart.abort_multipart_upload),
    ("DELETE", OBJECT, "", writing.delete_object),
    ("GET", BUCKET, "location", listing.get_bucket_location),
    ("GET", BUCKET, "versioning", listing.get_bucket_versioning),
    ("GET", BUCKET, "uploads", multipart.list_multipart_uploads),
    ("GET", BUCKET, "list-type", listing.list_objects_v2),
    ("GET", BUCKET, "", listing.list_objects_v1),
    ("HEAD", BUCKET, "", listing.head_bucket),
    ("PUT", BUCKET, "", listing.create_bucket),
    ("POST", BUCKET, "delete", writing.delete_objects),
    ("GET", SERVICE, "", listing.list_buckets),
)

UNSUPPORTED_SUBRESOURCES = frozenset(
    {
        "accelerate",
        "acl",
        "analytics",
        "attributes",
        "cors",
        "encryption",
        "events",
        "intelligent-tiering",
        "inventory",
        "lambdaArn",
        "legal-hold",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "renameObject",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "session",
        "tagging",
        "torrent",
        "versioning",
        "versions",
        "website",
    }
)


def find_handler(method: str, target: Target, query: Mapping[str, str]) -> Handler:
    """Find the handler of a request. Raises S3Error: no such operation."""
    level = SERVICE if not target.repository else OBJECT if target.ref and target.path else BUCKET
    if level == BUCKET and target.ref:
        # "/<repository>/main" and "/<repository>/main/" are not objects and can never be.
        code = "NoSuchKey" if method in ("GET", "HEAD") else "InvalidURI"
        raise UnknownOperationError(code, "A key is <branch>/<path>.")
    if level == OBJECT and len(target.path.encode()) > PATH_BYTES_MAX:
        raise S3Error("KeyTooLongError")
    for row_method, row_level, parameter, handler in OPERATIONS:
        if (row_method, row_level) != (method, level) or (parameter and parameter not in query):
            continue
        if not parameter and not UNSUPPORTED_SUBRESOURCES.isdisjoint(query):
            break
        if parameter == "list-type" and query["list-type"] != "2":
            continue
        return handler
    if not UNSUPPORTED_SUBRESOURCES.isdisjoint(query) or (method, level) in (
        ("DELETE", BUCKET),
        ("POST", BUCKET),
    ):
        raise S3Error("ERRLakeFSNotSupported")
    raise S3Error("MethodNotAllowed")
