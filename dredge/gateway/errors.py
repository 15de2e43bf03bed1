"""Errors of the gateway with S3's codes, and the code for each error of the catalog.

    <Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message>…</Error>

Codes that only lakeFS has (a protected branch, a read-only repository) are spelled as in lakeFS.

Source: S3 API reference "Error responses"; lakeFS pkg/gateway/errors/errors.go.
"""

from __future__ import annotations

import logging

from dredge.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from dredge.graveler.catalog import PresignUnsupportedError
from dredge.graveler.catalog.multiparts import UploadNotFoundError
from dredge.graveler.errors import (
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
from dredge.storage.uploads import UploadRefusedError

log = logging.getLogger(__name__)

CODES: dict[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied."),
    "AuthorizationHeaderMalformed": (400, "The authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The query parameters of the signature are malformed."),
    "BadDigest": (400, "The checksum you specified did not match what was received."),
    "BadRequest": (400, "The request is malformed."),
    "BucketAlreadyExists": (409, "The requested bucket name is not available."),
    "ERRLakeFSNotSupported": (405, "This operation is not supported in lakeFS"),
    "EntityTooLarge": (400, "The body is larger than this request allows."),
    "EntityTooSmall": (400, "A part other than the last one is smaller than the minimum size."),
    "ErrReadOnlyRepository": (403, "Attempted to write to a read-only repository"),
    "ErrWriteToProtectedBranch": (403, "Attempted to write to a protected branch"),
    "IncompleteBody": (400, "The length or the encoding of the body does not match its headers."),
    "InternalError": (500, "An internal error occurred, please try again."),
    "InvalidAccessKeyId": (403, "The access key id does not exist."),
    "InvalidArgument": (400, "Invalid argument."),
    "InvalidDigest": (400, "The checksum is not well formed."),
    "InvalidPart": (400, "A part was not found, or its entity tag differs."),
    "InvalidPartOrder": (400, "The list of parts is not in ascending order."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidRequest": (400, "Invalid request."),
    "InvalidURI": (400, "The URI cannot be parsed."),
    "KeyTooLongError": (400, "The key is empty or too long."),
    "MalformedXML": (400, "The XML is not well formed or does not match the schema of this request."),
    "MetadataTooLarge": (400, "The metadata headers exceed 2 KB."),
    "MethodNotAllowed": (405, "The method is not allowed on this resource."),
    "MissingContentLength": (411, "The length of the body must be given."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchUpload": (404, "The multipart upload does not exist; it may have been aborted or completed."),
    "NoSuchVersion": (404, "The object's data is no longer in the store."),
    "NotImplemented": (501, "The request uses a feature that is not implemented."),
    "PreconditionFailed": (412, "At least one of the preconditions you specified did not hold"),
    "RequestTimeTooSkewed": (403, "The request time and the server's time differ too much."),
    "SignatureDoesNotMatch": (403, "The signature does not match the request. Check key and signing method."),
    "SlowDown": (503, "Please reduce your request rate."),
    "XAmzContentSHA256Mismatch": (400, "The hash of the body differs from the signed one."),
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
    """An error response with an S3 code.

    Args:
        code: key of CODES.
        message: message in place of the code's default.
        headers: additional response headers.
    """

    def __init__(self, code: str, message: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.status, default = CODES[code]
        self.code = code
        self.headers = headers or {}
        super().__init__(default if message is None else message)


def to_s3_error(error: Exception, *, reading: bool) -> S3Error:
    """Translate an exception; an unexpected one is logged with its traceback and becomes InternalError.

    Args:
        error: any exception.
        reading: whether the request reads. As in lakeFS a missing branch or commit is NoSuchKey for a read and
            NoSuchBucket for a write.
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
