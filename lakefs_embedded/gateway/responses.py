"""Responses of the gateway: XML documents, errors, empty responses; XML bodies of requests, parsed strictly.

    document("Error", ("Code", "NoSuchKey"), ("Message", "…"))

Characters not allowed in XML 1.0 are written as references (`&#x1;`), as S3 does: some clients cannot parse them, but a
replacement character would be another key. `encoding-type=url` avoids them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from xml.etree import ElementTree

from starlette.responses import Response

from lakefs_embedded.gateway.errors import S3Error


def new_request_id() -> str:
    """Generate a request id, for the response header and the access log."""
    return secrets.token_hex(8).upper()


def document(root: str, *children: Node, headers: Mapping[str, str] | None = None) -> Response:
    """Build a 200 response with an XML document."""
    return Response(write_xml(root, *children), 200, {"Content-Type": "application/xml", **(headers or {})})


def empty(status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build a response without a body."""
    return Response(None, status, dict(headers or {}))


def error(s3_error: S3Error, *, resource: str, request_id: str, with_body: bool = True) -> Response:
    """Build an error response, without a body for a HEAD request."""
    if not with_body:
        return Response(None, s3_error.status, s3_error.headers)
    body = write_xml(
        "Error",
        ("Code", s3_error.code),
        ("Message", str(s3_error)),
        ("Resource", resource),
        ("RequestId", request_id),
        namespace=False,
    )
    return Response(body, s3_error.status, {"Content-Type": "application/xml", **s3_error.headers})


NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPECIAL = re.compile('[&<>"\r\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]')

type Node = tuple[str, str | int | bool | Iterable[Node]]


def write_xml(root: str, *children: Node, namespace: bool = True) -> bytes:
    """Write a document from pairs of name and text, or of name and children; S3's errors declare no namespace."""
    attribute = f' xmlns="{NAMESPACE}"' if namespace else ""
    parts = [_HEAD, f"<{root}{attribute}>"]
    for child in children:
        _write(parts, child)
    parts.append(f"</{root}>")
    return "".join(parts).encode("utf-8", "surrogateescape")


def timestamp(value: datetime | None) -> str:
    """Format an aware UTC time as S3 does, with milliseconds; None is the epoch."""
    if value is None:
        return "1970-01-01T00:00:00.000Z"
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"


def parse(data: bytes, root: str) -> ElementTree.Element:
    """Parse a request body (UTF-8) with this root element; refuses a DTD, whose entities can expand without bound."""
    try:
        # The parser gets text and not bytes: a document in another encoding could hide its DTD from the check
        # below, because the parser follows a byte order mark.
        text = data.decode()
        if "<!DOCTYPE" in text or "<!ENTITY" in text or "\0" in text:
            raise S3Error("MalformedXML")
        found = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        raise S3Error("MalformedXML") from None
    if local_name(found) != root:
        raise S3Error("MalformedXML")
    return found


def fields(element: ElementTree.Element) -> Mapping[str, str]:
    """Return the texts of an element's children by name."""
    return {local_name(child): child.text or "" for child in element}


def local_name(element: ElementTree.Element) -> str:
    """Return an element's name without its namespace: clients send S3's, an older one, or none."""
    return element.tag.rpartition("}")[2]


def _write(parts: list[str], node: Node) -> None:
    name, content = node
    parts.append(f"<{name}>")
    if isinstance(content, bool):
        parts.append("true" if content else "false")
    elif isinstance(content, str):
        parts.append(_SPECIAL.sub(_reference, content))
    elif isinstance(content, int):
        parts.append(str(content))
    else:
        for child in content:
            _write(parts, child)
    parts.append(f"</{name}>")


def _reference(found: re.Match[str]) -> str:
    char = found[0]
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}.get(char)
    return named or f"&#x{ord(char):x};"
