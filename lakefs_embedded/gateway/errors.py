"""Errors of the gateway with S3's codes, and the code for each error of the catalog.

    <Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message>…</Error>

The texts are S3's and lakeFS's, because clients match them. lakeFS's own codes (a protected branch, a read-only
repository) are spelled as in lakeFS. In profile `lakefs` the gateway answers as lakeFS where it differs from S3: with
an internal error instead of some S3 codes, mostly for multipart uploads, and it denies access to a missing key.
Clients and tests written for lakeFS rely on it.

Source: S3 API reference "Error responses"; lakeFS pkg/gateway/errors/errors.go, pkg/gateway (behaviour only).
"""

import logging

from dredge.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from lakefs_embedded.catalog import PresignUnsupportedError
from lakefs_embedded.catalog.multiparts import UploadNotFoundError
from lakefs_embedded.errors import (
    DataNotFoundError,
    ForbiddenError,
    InvalidValueError,
    MissingError,
    PathNotFoundError,
    PreconditionError,
    ProtectedBranchError,
    ReadOnlyError,
    RepositoryInDeletionError,
    RepositoryNotFoundError,
    UnsupportedError,
)
from lakefs_embedded.uploads import UploadRefusedError

log = logging.getLogger(__name__)

CODES: dict[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied."),
    "AuthorizationHeaderMalformed": (400, "The authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The query parameters of the signature are malformed."),
    "BadDigest": (400, "The Content-Md5 you specified did not match what we received."),
    "BadRequest": (400, "400 BadRequest"),
    "BucketAlreadyExists": (
        409,
        "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
        "Please select a different name and try again.",
    ),
    "ERRLakeFSNotSupported": (405, "This operation is not supported in LakeFS"),
    "EntityTooLarge": (400, "Your proposed upload exceeds the maximum allowed object size."),
    "EntityTooSmall": (400, "Your proposed upload is smaller than the minimum allowed object size."),
    "ErrReadOnlyRepository": (403, "Attempted to write to a read-only repository"),
    "ErrWriteToProtectedBranch": (403, "Attempted to write to a protected branch"),
    "IncompleteBody": (400, "The length or the encoding of the body does not match its headers."),
    "InternalError": (500, "We encountered an internal error, please try again."),
    "InvalidAccessKeyId": (403, "The access key ID you provided does not exist in our records."),
    "InvalidArgument": (400, "Invalid argument."),
    "InvalidDigest": (400, "The Content-Md5 you specified is not valid."),
    "InvalidPart": (
        400,
        "One or more of the specified parts could not be found.  The part may not have been uploaded, or "
        "the specified entity tag may not match the part's entity tag.",
    ),
    "InvalidPartOrder": (
        400,
        "The list of parts was not in ascending order. The parts list must be specified in order by part number.",
    ),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidRequest": (400, "Invalid request."),
    "InvalidURI": (400, "The URI cannot be parsed."),
    "KeyTooLongError": (400, "Your key is too long"),
    "MalformedXML": (
        400,
        "The XML you provided was not well-formed or did not validate against our published schema.",
    ),
    "MetadataTooLarge": (400, "Your metadata headers exceed the maximum allowed metadata size"),
    "MethodNotAllowed": (405, "The specified method is not allowed against this resource."),
    "MissingFields": (400, "Missing fields in request."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "ErrNoSuchBucketPossibleAPIEndpoint": (
        404,
        'Repository "api" not found; this can happen if your endpoint URL mistakenly ends in "/api/v1".',
    ),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchUpload": (
        404,
        "The specified multipart upload does not exist. The upload ID may be invalid, "
        "or the upload may have been aborted or completed.",
    ),
    "NoSuchVersion": (
        404,
        "Indicates that the version ID specified in the request does not match an existing version.",
    ),
    "NotImplemented": (501, "A header you provided implies functionality that is not implemented"),
    "PreconditionFailed": (412, "At least one of the pre-conditions you specified did not hold"),
    "RequestTimeTooSkewed": (
        403,
        "The difference between the request time and the server's time is too large.",
    ),
    "SignatureDoesNotMatch": (
        403,
        "The request signature we calculated does not match the signature you provided. "
        "Check your key and signing method.",
    ),
    "SlowDown": (503, "Please reduce your request rate."),
    "XAmzContentSHA256Mismatch": (
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
}

# The first match counts.
_CODE_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (PresignUnsupportedError, "InternalError"),
    (PathNotFoundError, "NoSuchKey"),
    (UploadNotFoundError, "NoSuchUpload"),
    (RepositoryNotFoundError, "NoSuchBucket"),
    (RepositoryInDeletionError, "NoSuchBucket"),
    (DataNotFoundError, "NoSuchVersion"),
    (ReadOnlyError, "ErrReadOnlyRepository"),
    (ProtectedBranchError, "ErrWriteToProtectedBranch"),
    (ForbiddenError, "AccessDenied"),
    (PreconditionError, "PreconditionFailed"),
    (UnsupportedError, "NotImplemented"),
    (InvalidValueError, "InvalidArgument"),
    (UnavailableError, "SlowDown"),
)


class S3Error(RefusedError):
    """An error response with an S3 code; `message` replaces the code's default."""

    def __init__(self, code: str, message: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.status, default = CODES[code]
        self.code = code
        self.headers = headers or {}
        super().__init__(default if message is None else message)


class UnknownOperationError(S3Error):
    """No operation has this URL: the key has no path. lakeFS answers without a body."""


def to_s3_error(error: Exception, *, reading: bool) -> S3Error:
    """Translate an exception; an unexpected one is logged with its traceback and becomes InternalError.

    As in lakeFS a missing branch or commit is NoSuchKey for a read and NoSuchBucket for a write.
    """
    if isinstance(error, S3Error):
        return error
    if isinstance(error, UploadRefusedError):
        return S3Error(error.code)
    code = next((code for base, code in _CODE_BY_ERROR if isinstance(error, base)), None)
    if code is not None:
        return S3Error(code, str(error) if code in ("InvalidArgument", "NotImplemented") else None)
    if isinstance(error, MissingError):
        return S3Error("NoSuchKey" if reading else "NoSuchBucket")
    if isinstance(error, NotFoundError | ConflictError):
        log.error("the store lacks data that must be there", exc_info=error)
    else:
        log.error("a request to the S3 gateway failed", exc_info=error)
    return S3Error("InternalError")


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
