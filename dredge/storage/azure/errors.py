"""The cause and the message for an error of Azure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dredge import causes
from dredge.causes import Cause
from dredge.errors import DredgeError
from dredge.storage.https import redact

THROTTLED = frozenset(
    {"ServerBusy", "TooManyRequests", "IngressLimitReached", "EgressLimitReached", "503", "429"}
)
TRANSIENT = frozenset({"InternalError", "OperationTimedOut", "500", "502", "504", "408", "ConnectionError"})
_NO_CONTAINER = frozenset({"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"})
_CONFLICT = frozenset(
    {
        "BlobAlreadyExists",
        "ConditionNotMet",
        "TargetConditionNotMet",
        "SourceConditionNotMet",
        "UnauthorizedBlobOverwrite",
    }
)
# Another writer took the blocks of an upload away: begin it again.
_LOST_BLOCKS = frozenset({"InvalidBlockList", "InvalidBlobOrBlock"})
_EXPIRED = frozenset({"ExpiredAuthenticationToken"})
_CREDENTIALS = frozenset({"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"})
_CHECKSUM = frozenset({"MissingContentMD5", "MissingContentCrc64"})
_UNKNOWN_REQUEST = frozenset({"NotImplemented", "UnsupportedHttpVerb", "FeatureNotSupported"})
_HINTS = {
    causes.DENIED: "Check the key, the SAS token's permissions or the role (Storage Blob Data Contributor), and the"
    " account's network rules.",
    causes.NO_CONTAINER: "There is no such container at this endpoint; check URI and endpoint.",
}


def by_code(code: str, status: int, words: str) -> DredgeError:
    """The error for an error code and HTTP status."""
    cause = _cause(code, status, words)
    return cause.error(words, _HINTS.get(cause, ""))


def _cause(code: str, status: int, words: str) -> Cause:
    if code in _NO_CONTAINER:
        return causes.NO_CONTAINER
    if code in _CONFLICT or status == 412:
        return causes.CONFLICT
    if status == 404:
        return causes.MISSING
    if code in _UNKNOWN_REQUEST or status in {405, 501}:
        return causes.NOT_IMPLEMENTED
    if code in _CHECKSUM:
        return causes.CHECKSUM
    if code in _EXPIRED or (code in _CREDENTIALS and "expired" in words.lower()):
        return causes.EXPIRED
    if code in _CREDENTIALS or status == 401:
        return causes.CREDENTIALS
    if code in THROTTLED | TRANSIENT | _LOST_BLOCKS or status in {408, 429} or status >= 500:
        return causes.BUSY
    return causes.DENIED if status == 403 else causes.REJECTED


def code_of(error: Exception) -> str:
    """The service's code of an error, or its HTTP status."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or getattr(error, "status_code", None) or "")


def translate(error: Exception, doing: str) -> DredgeError:
    """Translate an error of Azure's libraries."""
    from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError

    if isinstance(error, HttpResponseError) and error.status_code:
        code = code_of(error)
        # The first line is the service's message; the next lines have the request's id and the signed text.
        said = (error.message or "").partition("\n")[0]
        return by_code(
            code, int(error.status_code), redact(f"{doing}: {code} {said or error.reason or ''}".rstrip())
        )
    words = redact(f"{doing}: {error}")
    if causes.is_certificate(error):
        return causes.CERTIFICATE.error(words)
    if isinstance(error, ClientAuthenticationError):
        return causes.CREDENTIALS.error(words)
    return (causes.UNREACHABLE if isinstance(error, ServiceRequestError) else causes.NO_ANSWER).error(words)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Replace errors of Azure's libraries by Dredge's, without the original as cause: it may contain signed URLs."""
    from azure.core.exceptions import AzureError

    try:
        yield
    except AzureError as error:
        raise translate(error, doing) from None
