"""Exceptions as error responses: errors of the data model carry status and message, others follow their base class."""

from __future__ import annotations

import logging

from starlette.responses import Response

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from lakefs_embedded.errors import GravelerError, InvalidValueError
from lakefs_embedded.server import responses

log = logging.getLogger(__name__)

INVALID_ENDPOINT = "invalid API endpoint"
NOT_IMPLEMENTED = "Not Implemented"
CLIENT_GONE = 499  # for the access log only: the client has left and reads no response

_STATUS_BY_BASE: tuple[tuple[type[DredgeError], int], ...] = (
    (ConfigError, 400),
    (NotFoundError, 404),
    (ConflictError, 409),
    (UnavailableError, 503),
)


class RequestError(InvalidValueError):
    """The request violates the API's specification: a parameter or the body is missing or malformed."""

    @classmethod
    def parameter(cls, name: str, location: str, problem: str) -> RequestError:
        """Create the error for a parameter; `location` is "query", "path" or "header"."""
        return cls(f'parameter "{name}" in {location} has an error: {problem}')

    @classmethod
    def body(cls, problem: str) -> RequestError:
        """Create the error for the body."""
        return cls(f"request body has an error: {problem}")


def status_of(error: Exception) -> int:
    """Return the HTTP status of an exception; 500 for one not defined by Dredge."""
    if isinstance(error, GravelerError):
        return error.status
    return next((status for base, status in _STATUS_BY_BASE if isinstance(error, base)), 500)


def to_response(error: Exception) -> Response:
    """Build the error response for an exception.

    An unexpected exception is logged with its traceback; its response has only the type. An unsupported operation is
    logged as one line.
    """
    status = status_of(error)
    if status == 501:
        log.warning("not implemented: %s", error)
    elif status >= 500:
        log.error("a request failed with %d", status, exc_info=error)
    message = str(error) if isinstance(error, DredgeError) else f"internal error: {type(error).__name__}"
    return responses.error(status, message)
