"""Answers in the bytes a real server sends: compact JSON with a newline, one shape for every error.

    success   {"id":"main","commit_id":"f186…"}\\n      Content-Type: application/json
    error     {"message":"branch not found"}\\n         the same, with the code
    nothing   status only (204)

Source: lakeFS pkg/httputil (WriteAPIResponse, WriteAPIError).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

JSON_HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
# Go's encoder writes these as escapes, so that an answer can stand inside HTML.
_GO_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def to_json(value: object) -> bytes:
    """Encode a value the way the server does, with the newline at its end."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_GO_ESCAPES).encode("utf-8", "replace") + b"\n"


def answer(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(to_json(body), status, {**JSON_HEADERS, **(headers or {})})


def error(status: int, message: str) -> Response:
    """The one shape of errors."""
    return answer(status, {"message": message})


def empty(status: int = 204) -> Response:
    """A status and nothing else."""
    return Response(None, status)


def text(status: int, body: str) -> Response:
    """Plain text, which `createBranch` alone answers with."""
    return Response(body, status, {"Content-Type": "text/plain; charset=utf-8"})


def page(results: list[dict[str, Any]], *, has_more: bool, next_offset: str) -> Response:
    """One page of a listing with its pagination object.

    Args:
        results: shaped already.
        has_more: there is a next page.
        next_offset: what to give as `after` for it; "" when there is none.
    """
    return answer(
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
