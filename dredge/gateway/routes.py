"""Every operation: method, what the URL names, which query parameter asks for it, handler.

A parameter that names a part of S3 which is not here (`?acl`, `?policy`, …) is refused: it must never be taken
for the plain operation, which would overwrite an object with its own access list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import Response

from dredge.gateway.failures import S3Error
from dredge.gateway.handlers import buckets, listing, multipart, reading, writing
from dredge.gateway.requests import S3Request, Target
from dredge.graveler.refs.names import PATH_BYTES_MAX

type Handler = Callable[[S3Request], Response]

SERVICE, BUCKET, OBJECT = "service", "bucket", "object"

# (method, place, parameter): the first row that fits, so those with a parameter come first.
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
    ("GET", BUCKET, "location", buckets.get_bucket_location),
    ("GET", BUCKET, "versioning", buckets.get_bucket_versioning),
    ("GET", BUCKET, "uploads", multipart.list_multipart_uploads),
    ("GET", BUCKET, "list-type", listing.list_objects_v2),
    ("GET", BUCKET, "", listing.list_objects_v1),
    ("HEAD", BUCKET, "", buckets.head_bucket),
    ("PUT", BUCKET, "", buckets.create_bucket),
    ("POST", BUCKET, "delete", writing.delete_objects),
    ("GET", SERVICE, "", buckets.list_buckets),
)

UNSUPPORTED = frozenset(
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


def find(method: str, target: Target, query: Mapping[str, str]) -> Handler:
    """Choose the handler.

    Raises:
        S3Error: there is none.
    """
    place = SERVICE if not target.repository else OBJECT if target.ref and target.path else BUCKET
    if place == BUCKET and target.ref:
        # "/<repository>/main" and "/<repository>/main/" are no objects, and could never be any.
        raise S3Error("NoSuchKey" if method in ("GET", "HEAD") else "InvalidURI", "A key is <branch>/<path>.")
    if place == OBJECT and len(target.path.encode()) > PATH_BYTES_MAX:
        raise S3Error("KeyTooLongError")
    for row_method, row_place, parameter, handler in OPERATIONS:
        if (row_method, row_place) != (method, place) or (parameter and parameter not in query):
            continue
        if not parameter and not UNSUPPORTED.isdisjoint(query):
            break
        if parameter == "list-type" and query["list-type"] != "2":
            continue
        return handler
    if not UNSUPPORTED.isdisjoint(query) or (method, place) in (("DELETE", BUCKET), ("POST", BUCKET)):
        raise S3Error("ERRLakeFSNotSupported")
    raise S3Error("MethodNotAllowed")
