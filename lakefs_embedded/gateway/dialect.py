"""The errors of lakeFS's gateway different from S3's, for profile `lakefs`.

lakeFS answers with an internal error instead of some S3 codes, mostly for multipart uploads, and denies access to a
missing key. Clients and tests written for lakeFS rely on it.

Source: lakeFS pkg/gateway (behaviour only).
"""

from __future__ import annotations

from lakefs_embedded.errors import RepositoryNotFoundError
from lakefs_embedded.gateway.errors import S3Error

API_PATH = b"/api/v1"
_ANY = ""
_NO_SOURCE = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey."

# Code and message in lakeFS by operation (_ANY for all) and S3's code; a message of None is that of the code.
_IN_LAKEFS: dict[tuple[str, str], tuple[str, str | None]] = {
    (_ANY, "InvalidAccessKeyId"): ("AccessDenied", None),
    (_ANY, "KeyTooLongError"): ("InternalError", None),
    ("put_object", "NoSuchVersion"): ("InvalidRequest", "The data of the copy source is not in the store."),
    ("upload_part", "NoSuchUpload"): ("InternalError", None),
    ("upload_part", "NoSuchKey"): ("InvalidArgument", _NO_SOURCE),
    ("upload_part", "NoSuchVersion"): ("InternalError", None),
    ("list_parts", "NoSuchUpload"): ("InternalError", None),
    ("complete_multipart_upload", "NoSuchUpload"): ("InternalError", None),
    ("complete_multipart_upload", "MalformedXML"): ("InternalError", None),
    ("complete_multipart_upload", "InvalidPart"): ("InternalError", None),
    ("complete_multipart_upload", "InvalidPartOrder"): ("InternalError", None),
    ("complete_multipart_upload", "EntityTooSmall"): ("InternalError", None),
    ("abort_multipart_upload", "NoSuchUpload"): ("NoSuchKey", None),
}


def as_lakefs(error: S3Error, operation: str) -> S3Error:
    """Return lakeFS's error in place of S3's; `operation` is the name of the handler, or ""."""
    found = _IN_LAKEFS.get((operation, error.code)) or _IN_LAKEFS.get((_ANY, error.code))
    return error if found is None else S3Error(*found)


def missing_repository(path: bytes, error: Exception) -> S3Error | None:
    """Return a hint for a client with the API's endpoint; None for any other error."""
    if not isinstance(error, RepositoryNotFoundError) or not path.startswith(API_PATH):
        return None
    return S3Error("ErrNoSuchBucketPossibleAPIEndpoint")
