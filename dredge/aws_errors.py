"""The causes of errors that all of AWS's services and clients share."""

from __future__ import annotations

import re

from dredge.causes import (
    BUSY,
    CERTIFICATE,
    CLOCK,
    CREDENTIALS,
    DENIED,
    EXPIRED,
    NO_ANSWER,
    REGION,
    UNREACHABLE,
    UNUSABLE,
    Cause,
    is_certificate,
)

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
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "OperationAborted",
        "429",
        "503",
    }
)
TRANSIENT = frozenset(
    {"InternalError", "RequestTimeout", "RequestTimeoutException", "InternalServerError", "500", "502", "504"}
)
_BY_CODE: dict[str, Cause] = {
    **dict.fromkeys((*THROTTLED, *TRANSIENT), BUSY),
    **dict.fromkeys(
        (
            "ExpiredToken",
            "ExpiredTokenException",
            "TokenRefreshRequired",
            "RequestExpired",
            "ExpiredIdentityToken",
        ),
        EXPIRED,
    ),
    **dict.fromkeys(
        (
            "AuthFailure",
            "InvalidAccessKeyId",
            "InvalidClientTokenId",
            "InvalidIdentityToken",
            "InvalidSecurity",
            "InvalidToken",
            "InvalidSignatureException",
            "IncompleteSignature",
            "IncompleteSignatureException",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
            "401",
        ),
        CREDENTIALS,
    ),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestInTheFuture"), CLOCK),
    **dict.fromkeys(
        (
            "AccessDenied",
            "AccessDeniedException",
            "AllAccessDisabled",
            "AccountProblem",
            "UnauthorizedAccess",
            "403",
        ),
        DENIED,
    ),
    **dict.fromkeys(
        (
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraintException",
            "PermanentRedirect",
            "TemporaryRedirect",
            "301",
            "307",
        ),
        REGION,
    ),
}
_BY_STATUS = {301: REGION, 307: REGION, 401: CREDENTIALS, 403: DENIED, 408: BUSY, 429: BUSY}
_OPERATION_FAILED = re.compile(r"An error occurred \(([^)]+)\) when calling the (\w+) operation: ([^\n\"]*)")
_CLASS = re.compile(r"\b([A-Z]\w+): ([^\n]*)")


def cause_of_code(code: str, status: int) -> Cause | None:
    """Choose the cause for a code that means the same in every service of AWS; None for another one.

    Args:
        code: of the service.
        status: of HTTP.
    """
    return _BY_CODE.get(code) or _BY_STATUS.get(status) or (BUSY if status >= 500 else None)


def cause_without_answer(error: Exception) -> Cause:
    """Choose the cause for an error of botocore or urllib3 that is no answer of a service."""
    return _of_class(type(error), str(error))


def cause_of_provider(text: str) -> tuple[Cause, str]:
    """Choose the cause for what obstore tells of an exception of botocore's credentials.

    Args:
        text: obstore's words, which contain the class and the words of the exception.

    Returns:
        The cause, and the words.
    """
    from botocore import exceptions

    answered = _OPERATION_FAILED.search(text)
    if answered is not None:
        code, operation, message = answered.groups()
        return cause_of_code(code, 0) or CREDENTIALS, f"{operation}: {code} {message}"
    for name, words in _CLASS.findall(text):
        kind = getattr(exceptions, name, None)
        if isinstance(kind, type):
            return _of_class(kind, words), f"{name}: {words}"
    return CREDENTIALS, "no credentials"


def _of_class(kind: type, words: str) -> Cause:
    from botocore import exceptions as aws
    from urllib3.exceptions import HTTPError

    if issubclass(kind, aws.SSLError):
        return CERTIFICATE if is_certificate(words) else UNREACHABLE
    if issubclass(kind, aws.EndpointConnectionError | aws.ConnectTimeoutError | aws.ProxyConnectionError):
        return UNREACHABLE
    lost = aws.HTTPClientError | aws.ConnectionClosedError | aws.IncompleteReadError | HTTPError
    if issubclass(kind, lost):
        return NO_ANSWER
    if issubclass(kind, aws.MetadataRetrievalError) or "retrieving metadata" in words:
        return UNREACHABLE  # the machine's own service of roles did not answer
    if issubclass(kind, aws.SSOError | aws.TokenRetrievalError):
        return EXPIRED  # of a login by the browser
    if issubclass(kind, aws.NoCredentialsError | aws.PartialCredentialsError | aws.CredentialRetrievalError):
        return CREDENTIALS
    if issubclass(kind, aws.NoRegionError):
        return REGION
    return UNUSABLE if issubclass(kind, aws.BotoCoreError) else NO_ANSWER
