"""Responses, byte for byte as a real server writes them: compact JSON with a trailing newline, one error body.

    success   {"id":"main","commit_id":"f186…"}\\n      Content-Type: application/json
    error     {"message":"branch not found"}\\n         the same content type
    empty     status only (204)

Source: lakeFS pkg/httputil (WriteAPIResponse, WriteAPIError).
"""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import Any

from starlette.responses import Response

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


def page(results: list[dict[str, Any]], *, has_more: bool, next_offset: str) -> Response:
    """Build the response for one page of a listing; `next_offset` is ignored on the last page."""
    return json(
        200,
        {
            "pagination": {
                "has_more": has_more,
                "max_per_page": 1000,
                "next_offset": next_offset if has_more else "",
                "results": len(results),
            },
            "results": results,
        },
    )
