"""From an exception to an answer: graveler's errors know their code and words, others follow their family."""

from __future__ import annotations

import logging

from starlette.responses import Response

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.graveler.errors import GravelerError, InvalidValueError
from dredge.server import answers

log = logging.getLogger(__name__)

INVALID_ENDPOINT = "invalid API endpoint"
NOT_IMPLEMENTED = "Not Implemented"
CLIENT_GONE = 499  # nobody reads it; it stands in the log

_FAMILIES: tuple[tuple[type[DredgeError], int], ...] = (
    (ConfigError, 400),
    (NotFoundError, 404),
    (ConflictError, 409),
    (UnavailableError, 503),
)


class RequestError(InvalidValueError):
    """A request that does not fit the API's description: a parameter or a body is missing or malformed."""

    @classmethod
    def parameter(cls, name: str, place: str, problem: str) -> RequestError:
        """Word it for a parameter; `place` is query, path or header."""
        return cls(f'parameter "{name}" in {place} has an error: {problem}')

    @classmethod
    def body(cls, problem: str) -> RequestError:
        """Word it for the body."""
        return cls(f"request body has an error: {problem}")


def status_of(failure: Exception) -> int:
    """The HTTP code of an exception."""
    if isinstance(failure, GravelerError):
        return failure.status
    return next((code for family, code in _FAMILIES if isinstance(failure, family)), 500)


def to_answer(failure: Exception) -> Response:
    """The answer for an exception. What nobody expected is logged in full and answered in short."""
    status = status_of(failure)
    if status >= 500:
        log.error("a request failed with %d", status, exc_info=failure)
    message = (
        str(failure) if isinstance(failure, DredgeError) else f"internal error: {type(failure).__name__}"
    )
    return answers.error(status, message)
