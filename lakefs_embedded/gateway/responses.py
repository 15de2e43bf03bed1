"""Responses of the gateway: XML documents, errors, empty responses."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.responses import Response

from lakefs_embedded.gateway import xml
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.xml import Node


def new_request_id() -> str:
    """Generate a request id, for the response header and the access log."""
    return secrets.token_hex(8).upper()


def document(root: str, *children: Node, headers: Mapping[str, str] | None = None) -> Response:
    """Build a 200 response with an XML document."""
    return Response(
        xml.document(root, *children), 200, {"Content-Type": "application/xml", **(headers or {})}
    )


def empty(status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build a response without a body."""
    return Response(None, status, dict(headers or {}))


def error(s3_error: S3Error, *, resource: str, request_id: str, with_body: bool = True) -> Response:
    """Build an error response, without a body for a HEAD request."""
    if not with_body:
        return Response(None, s3_error.status, s3_error.headers)
    body = xml.document(
        "Error",
        ("Code", s3_error.code),
        ("Message", str(s3_error)),
        ("Resource", resource),
        ("RequestId", request_id),
        namespace=False,
    )
    return Response(body, s3_error.status, {"Content-Type": "application/xml", **s3_error.headers})
