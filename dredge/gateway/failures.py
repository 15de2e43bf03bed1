"""What the gateway refuses, in S3's codes; and which code a refusal of the catalog gets.

    <Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message>…</Error>

Codes that only lakeFS has (a protected branch, a read-only repository) are spelled as it spells them.

Source: S3 API reference "Error responses"; lakeFS pkg/gateway/errors/errors.go.
"""

from __future__ import annotations

import logging

from dredge.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
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
    "BadRequest": (400, "The request cannot be understood."),
    "BucketAlreadyExists": (409, "The requested bucket name is not available."),
    "ERRLakeFSNotSupported": (405, "This operation is not supported in lakeFS"),
    "EntityTooLarge": (400, "The body is larger than this request allows."),
    "EntityTooSmall": (400, "A part is smaller than the least size, and is not the last one."),
    "ErrReadOnlyRepository": (403, "Attempted to write to a read-only repository"),
    "ErrWriteToProtectedBranch": (403, "Attempted to write to a protected branch"),
    "IncompleteBody": (400, "The body is not as long as its headers say, or is not encoded as they say."),
    "InternalError": (500, "An internal error occurred, please try again."),
    "InvalidAccessKeyId": (403, "The access key id does not exist."),
    "InvalidArgument": (400, "Invalid argument."),
    "InvalidDigest": (400, "The checksum is not well formed."),
    "InvalidPart": (400, "A part was not found, or its entity tag is another one."),
    "InvalidPartOrder": (400, "The list of parts is not in ascending order."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidRequest": (400, "Invalid request."),
    "InvalidURI": (400, "The URI cannot be parsed."),
    "KeyTooLongError": (400, "The key is empty or too long."),
    "MalformedXML": (400, "The XML is not well formed, or not what this request takes."),
    "MetadataTooLarge": (400, "The metadata headers exceed 2 KB."),
    "MethodNotAllowed": (405, "The method is not allowed on this resource."),
    "MissingContentLength": (411, "The length of the body must be given."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchUpload": (404, "The multipart upload does not exist; it may have been aborted or completed."),
    "NoSuchVersion": (404, "The object's bytes are not in the store any more."),
    "NotImplemented": (501, "The request asks for something that is not implemented."),
    "PreconditionFailed": (412, "At least one of the preconditions you specified did not hold"),
    "RequestTimeTooSkewed": (403, "The request's time and the server's differ too much."),
    "SignatureDoesNotMatch": (403, "The signature does not match the request. Check key and signing method."),
    "SlowDown": (503, "Please reduce your request rate."),
    "XAmzContentSHA256Mismatch": (400, "The body does not have the hash that was signed."),
}

# The first that fits counts.
_BY_FAILURE: tuple[tuple[type[Exception], str], ...] = (
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
    """A refusal with a code of S3's.

    Args:
        code: one of CODES.
        message: more than the code's own words, if there is more to say.
        headers: extra ones of the answer.
    """

    def __init__(self, code: str, message: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.status, words = CODES[code]
        self.code = code
        self.headers = headers or {}
        super().__init__(words if message is None else message)


def to_s3(failure: Exception, *, reading: bool) -> S3Error:
    """Translate any failure. What nobody expected is logged in full and answered in short.

    Args:
        failure: as it came.
        reading: a missing branch or commit is a missing key to who reads, and a missing bucket to who
            writes, as in lakeFS.
    """
    if isinstance(failure, S3Error):
        return failure
    if isinstance(failure, UploadRefusedError):
        return S3Error(failure.code)
    code = next((code for kind, code in _BY_FAILURE if isinstance(failure, kind)), None)
    if code is not None:
        return S3Error(code, str(failure) if code in ("InvalidArgument", "NotImplemented") else None)
    if isinstance(failure, MissingError):
        return S3Error("NoSuchKey" if reading else "NoSuchBucket")
    if isinstance(failure, NotFoundError | ConflictError):
        log.error("the store does not have what it should", exc_info=failure)
    else:
        log.error("a request to the S3 gateway failed", exc_info=failure)
    return S3Error("InternalError")
