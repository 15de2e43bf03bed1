"""Responses, byte for byte as a real server writes them: compact JSON with a trailing newline, one error body.

    success   {"id":"main","commit_id":"f186…"}\\n      Content-Type: application/json
    error     {"message":"branch not found"}\\n         the same content type
    empty     status only (204)

Of exceptions, errors of the data model carry status and message, others follow their base class.

Source: lakeFS pkg/httputil (WriteAPIResponse, WriteAPIError).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from json import dumps
from typing import Any

from starlette.responses import Response

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.errors import GravelerError, InvalidValueError

# Go's encoder escapes these so that the text can be embedded in HTML.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
JSON_HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}


def to_json(value: object) -> bytes:
    """Encode a value as the server does, including the trailing newline."""
    text = dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES).encode("utf-8", "replace") + b"\n"


def json(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    """Build a JSON response."""
    return Response(to_json(body), status, {**JSON_HEADERS, **(headers or {})})


def error(status: int, message: str) -> Response:
    """Build an error response; every error of the API has this body."""
    return json(status, {"message": message})


def empty(status: int = 204) -> Response:
    """Build a response without a body."""
    return Response(None, status)


def redirect(url: str, status: int = 302) -> Response:
    """Build a redirection to a pre-signed URL, sent unchanged: another encoding would break its signature."""
    return Response(None, status, {"Location": url})


def text(status: int, body: str) -> Response:
    """Build a plain text response, only for `createBranch`."""
    return Response(body, status, {"Content-Type": "text/plain; charset=utf-8"})


def page[T](found: Page[T], serialize: Callable[[T], dict[str, Any]]) -> Response:
    """Build the response for one page of a listing."""
    pagination = {
        "has_more": found.has_more,
        "max_per_page": 1000,
        "next_offset": found.next_offset,
        "results": len(found.results),
    }
    return json(200, {"pagination": pagination, "results": [serialize(each) for each in found.results]})


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


def to_response(problem: Exception) -> Response:
    """Build the error response for an exception.

    An unexpected exception is logged with its traceback; its response has only the type. An unsupported operation is
    logged as one line.
    """
    status = status_of(problem)
    if status == 501:
        log.warning("not implemented: %s", problem)
    elif status >= 500:
        log.error("a request failed with %d", status, exc_info=problem)
    message = (
        str(problem) if isinstance(problem, DredgeError) else f"internal error: {type(problem).__name__}"
    )
    return error(status, message)
