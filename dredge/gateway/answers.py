"""Answers of the gateway: XML, errors, empty ones."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.responses import Response

from dredge.gateway import xml
from dredge.gateway.failures import S3Error
from dredge.gateway.xml import Node


def new_request_id() -> str:
    """An id that stands in the answer and in the log."""
    return secrets.token_hex(8).upper()


def document(root: str, *children: Node, headers: Mapping[str, str] | None = None) -> Response:
    """An XML answer."""
    return Response(
        xml.document(root, *children), 200, {"Content-Type": "application/xml", **(headers or {})}
    )


def empty(status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A status and headers."""
    return Response(None, status, dict(headers or {}))


def error(failure: S3Error, *, resource: str, request_id: str, with_body: bool = True) -> Response:
    """The one shape of errors; answers to HEAD have no body."""
    if not with_body:
        return Response(None, failure.status, failure.headers)
    body = xml.document(
        "Error",
        ("Code", failure.code),
        ("Message", str(failure)),
        ("Resource", resource),
        ("RequestId", request_id),
        namespace=False,
    )
    return Response(body, failure.status, {"Content-Type": "application/xml", **failure.headers})
