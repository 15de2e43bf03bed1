"""What an S3 answer means for the caller: which family of ours, and in what words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.storage.redact import redact

THROTTLED = frozenset(
    {
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequests",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "OperationAborted",
        "429",
        "503",
    }
)
TRANSIENT = frozenset(
    {"InternalError", "RequestTimeout", "RequestTimeoutException", "InternalServerError", "500", "502", "504"}
)
UNKNOWN_REQUEST = frozenset({"NotImplemented", "MethodNotAllowed", "501", "405"})
"""Codes of stores that know only some of S3's requests."""
_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchBucket", "NoSuchUpload", "NoSuchVersion"})
_CONFLICT = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_DENIED = frozenset(
    {
        "403",
        "401",
        "AccessDenied",
        "AllAccessDisabled",
        "AccountProblem",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidToken",
        "TokenRefreshRequired",
        "RequestTimeTooSkewed",
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "301",
    }
)


def by_code(code: str, status: int, words: str) -> DredgeError:
    """Choose the family for an error code and HTTP status."""
    if code == "NoSuchBucket":
        return ConfigError(
            f"{words}. The bucket does not exist at this endpoint; check the URI and the endpoint."
        )
    if code in UNKNOWN_REQUEST or status == 501:
        return ConfigError(f"{words}. NotImplemented: this store does not know such a request.")
    if code in _CONFLICT or status == 412:
        return ConflictError(words)
    if code in _MISSING or status == 404:
        return NotFoundError(words)
    if code in THROTTLED or code in TRANSIENT or status in {408, 429} or status >= 500:
        return UnavailableError(words)
    if code in _DENIED or status in {301, 401, 403}:
        return ConfigError(
            f"{words}. Check the key pair, its policy (s3:ListBucket, s3:GetObject, s3:PutObject, "
            "s3:DeleteObject), the region and the endpoint."
        )
    return ConfigError(words)


def translate(error: Exception, doing: str) -> DredgeError:
    """Translate an error of botocore."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionClosedError,
        HTTPClientError,
        IncompleteReadError,
        NoCredentialsError,
        PartialCredentialsError,
    )

    if isinstance(error, ClientError):
        found = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = found.get("Code", "")
        return by_code(code, status, redact(f"{doing}: {code} {found.get('Message', '')}".rstrip()))
    words = redact(f"{doing}: {error}")
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return ConfigError(f"{words}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role.")
    if isinstance(error, HTTPClientError | ConnectionClosedError | IncompleteReadError):
        return UnavailableError(words)
    if isinstance(error, BotoCoreError):
        return ConfigError(words)
    return UnavailableError(words)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our families instead of the libraries' errors, unchained: theirs may show request details."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (BotoCoreError, ClientError, HTTPError) as error:
        raise translate(error, doing) from None
