"""What an answer of Azure means for the caller: which family of ours, and in what words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.storage.redact import redact

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
_RIGHTS = "Check account, key, SAS token or role (Storage Blob Data Contributor), and the endpoint."


def by_code(code: str, status: int, words: str) -> DredgeError:
    """Choose the family for an error code and HTTP status."""
    if code in _NO_CONTAINER:
        return ConfigError(f"{words}. There is no such container at this endpoint; check URI and endpoint.")
    if code in _CONFLICT or status == 412:
        return ConflictError(words)
    if status == 404:
        return NotFoundError(words)
    if code in THROTTLED | TRANSIENT | _LOST_BLOCKS or status in {408, 429} or status >= 500:
        return UnavailableError(words)
    if status in {401, 403}:
        return ConfigError(f"{words}. {_RIGHTS}")
    return ConfigError(words)


def code_of(error: Exception) -> str:
    """The service's code of an error, or its HTTP status."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or getattr(error, "status_code", None) or "")


def translate(error: Exception, doing: str) -> DredgeError:
    """Translate an error of Azure's libraries."""
    from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

    if isinstance(error, HttpResponseError) and error.status_code:
        code = code_of(error)
        return by_code(code, int(error.status_code), redact(f"{doing}: {code} {error.reason or ''}".rstrip()))
    words = redact(f"{doing}: {error}")
    if isinstance(error, ClientAuthenticationError):
        return ConfigError(f"{words}. {_RIGHTS}")
    return UnavailableError(words)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our families instead of the libraries' errors, unchained: theirs show signed URLs and signatures."""
    from azure.core.exceptions import AzureError

    try:
        yield
    except AzureError as error:
        raise translate(error, doing) from None
