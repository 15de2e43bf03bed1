"""Causes of failed requests to servers, stores and databases: one table for all clients.

Each client maps its errors to a cause; the cause alone decides about the error's family, its exit code, and retries.
"""

import re

from msgspec import Struct

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError


class Cause(Struct, frozen=True):
    """A row of the table."""

    name: str
    family: type[DredgeError]
    meaning: str
    what_to_do: str = ""  # one sentence at the end of a message; "" for none

    def error(self, words: str, what_to_do: str = "") -> DredgeError:
        """Make the error. `words`: the request, its object, and the service's code and message; without secrets."""
        ends = what_to_do or self.what_to_do
        return self.family(f"{words.rstrip('. ')}. {ends}" if ends else words)


UNREACHABLE = Cause(
    "unreachable",
    UnavailableError,
    "No connection: refused, unknown name, proxy down, or timeout.",
    "If it persists, check the endpoint, the name, the proxy and the network.",
)

NO_ANSWER = Cause(
    "no_answer",
    UnavailableError,
    "The connection was lost, or timed out.",
)

BUSY = Cause(
    "busy",
    UnavailableError,
    "The service is throttled, restarting or at fault (429, 5xx).",
)

CERTIFICATE = Cause(
    "certificate",
    ConfigError,
    "The certificate of the server or proxy is not accepted.",
    "Name the PEM file of the certificate authority in REQUESTS_CA_BUNDLE or in the connection (docs/install.md), and"
    " check the server's name and the dates of its certificate.",
)

EXPIRED = Cause(
    "expired",
    ConfigError,
    "The session token or the credentials have expired.",
    "Give new credentials, or a role that renews them.",
)

CREDENTIALS = Cause(
    "credentials",
    ConfigError,
    "There are no credentials, or the service does not know them: key, token, password or signature.",
    "Check the credentials of the connection, the environment or the machine's role.",
)

CLOCK = Cause(
    "clock",
    ConfigError,
    "The clock of this machine differs too much from the service's.",
    "Set the clock of this machine.",
)

DENIED = Cause(
    "denied",
    ConfigError,
    "The credentials are known and may not do this.",
    "Give the user or role the right to do it.",
)

REGION = Cause(
    "region",
    ConfigError,
    "The region is missing, or is not that of the bucket or table.",
    "Set the region (AWS_REGION, or region_name of the connection) and check the endpoint.",
)

CHECKSUM = Cause(
    "checksum",
    ConfigError,
    "The store demands a checksum that the request does not have.",
    "Set AWS_REQUEST_CHECKSUM_CALCULATION=when_supported, or request_checksum_calculation in config_kwargs of the"
    " connection, if the store is S3; for another store, remove the requirement.",
)

NOT_IMPLEMENTED = Cause(
    "not_implemented",
    ConfigError,
    "The service does not support the request.",
    "Use a service, or a version of it, that does.",
)

NO_CONTAINER = Cause(
    "no_container",
    ConfigError,
    "The bucket, container, table or database does not exist.",
    "Check its name and the endpoint.",
)

UNUSABLE = Cause(
    "unusable",
    ConfigError,
    "The client cannot be made: a profile, a key file or a package is missing, or a setting cannot be read.",
    "Check the settings of the connection and the environment.",
)

REJECTED = Cause(
    "rejected",
    ConfigError,
    "The service rejects the request for another reason (4xx), with its code and message.",
)

MISSING = Cause("missing", NotFoundError, "The object, key or record does not exist.")
CONFLICT = Cause("conflict", ConflictError, "The condition of a conditional write does not hold.")
CAUSES = (
    UNREACHABLE,
    NO_ANSWER,
    BUSY,
    CERTIFICATE,
    EXPIRED,
    CREDENTIALS,
    CLOCK,
    DENIED,
    REGION,
    CHECKSUM,
    NOT_IMPLEMENTED,
    NO_CONTAINER,
    UNUSABLE,
    REJECTED,
    MISSING,
    CONFLICT,
)


def is_certificate(error: object) -> bool:
    """Whether an error of OpenSSL or rustls is about a certificate."""
    words = str(error)
    return any(
        sign in words
        for sign in ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "InvalidCertificate")
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
    """Return the cause of a code with one meaning in all services of AWS, or of an HTTP status; None if unknown."""
    return _BY_CODE.get(code) or _BY_STATUS.get(status) or (BUSY if status >= 500 else None)


def cause_without_answer(error: Exception) -> Cause:
    """Return the cause of an error of botocore or urllib3 without a response."""
    return _of_class(type(error), str(error))


def cause_of_provider(text: str) -> tuple[Cause, str]:
    """Return the cause and the message of a botocore exception about credentials, from obstore's message."""
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
        return UNREACHABLE  # the machine's role service did not answer
    if issubclass(kind, aws.SSOError | aws.TokenRetrievalError):
        return EXPIRED  # of a browser login
    if issubclass(kind, aws.NoCredentialsError | aws.PartialCredentialsError | aws.CredentialRetrievalError):
        return CREDENTIALS
    if issubclass(kind, aws.NoRegionError):
        return REGION
    return UNUSABLE if issubclass(kind, aws.BotoCoreError) else NO_ANSWER
