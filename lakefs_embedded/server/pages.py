"""Pages beside the API, without credentials: health, metrics, a page for browsers, the specification (OpenAPI 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from lakefs_embedded.server import responses
from lakefs_embedded.server.handlers.server_info import LAKEFS_VERSION
from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.responses import INVALID_ENDPOINT, RequestError
from lakefs_embedded.server.routes import BASE_PATH, OPERATIONS
from lakefs_embedded.server.schemas import FieldType, ListOf, MapOfText, Schema
from lakefs_embedded.server.usage import Usage

_PAGE = f"""<!doctype html>
<title>lakeFS (embedded)</title>
<h1>lakeFS (embedded)</h1>
<p>This server has no user interface. Its API is below <code>{BASE_PATH}</code>
(<a href="/openapi.json">specification</a>); S3 clients use this address as their endpoint.
"""
# What follows a collection in a path, and the parameter's name in the API's specification.
_PARAMETERS = {"repositories": "repository", "branches": "branch", "tags": "tag", "refs": "ref"}


def side_routes(usage: Usage) -> list[Route]:
    """Routes outside the API; `/metrics` shows the counts of `usage`."""

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(usage.metrics())

    return [
        Route("/_health", _health),
        Route("/metrics", metrics),
        Route("/openapi.json", _openapi),
    ]


async def not_found(request: Request, error: Exception) -> Response:
    """Answer an unknown path or method as a real server does.

    In the API the message is always the same; other paths get a page.
    """
    assert isinstance(error, HTTPException)
    path = request.url.path
    if path != BASE_PATH and not path.startswith(BASE_PATH + "/"):
        if request.method in ("GET", "HEAD"):
            return HTMLResponse(_PAGE)
        return responses.error(404, INVALID_ENDPOINT)
    empty = _empty_parameter(path.removeprefix(BASE_PATH).removeprefix("/"))
    if empty is not None:
        return responses.error(400, str(RequestError.parameter(empty, "path", "empty value is not allowed")))
    return responses.error(404, INVALID_ENDPOINT)


def _empty_parameter(path: str) -> str | None:
    parts = path.split("/")
    for collection, value in pairwise(parts):
        if not value and collection in _PARAMETERS:
            return _PARAMETERS[collection]
    return None


async def _health(request: Request) -> Response:
    return PlainTextResponse("alive!")


async def _openapi(request: Request) -> Response:
    return Response(_specification(), media_type="application/json")


@cache
def _specification() -> bytes:
    return responses.to_json(specification(BASE_PATH, LAKEFS_VERSION, OPERATIONS))


JsonObject = dict[str, Any]


def specification(base_path: str, version: str, operations: Iterable[Operation]) -> JsonObject:
    """Build the specification; all operations are below `base_path`."""
    paths: JsonObject = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.0.0",
        "info": {"title": "lakeFS API (embedded server)", "version": version},
        "servers": [{"url": base_path}],
        "security": [{"basic_auth": []}, {"jwt_token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic_auth": {"type": "http", "scheme": "basic"},
                "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            }
        },
    }


def _operation(operation: Operation) -> JsonObject:
    made: JsonObject = {
        "operationId": operation.name,
        "summary": (operation.handler.__doc__ or "").strip().splitlines()[0],
        "parameters": [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", operation.path)
        ],
        "responses": {"default": {"description": "the result, or an error with a message"}},
    }
    if operation.public:
        made["security"] = []
    if operation.schema is not None:
        required = not isinstance(operation.schema, Schema) or operation.schema.required_body
        content = {"application/json": {"schema": _type(operation.schema)}}
        made["requestBody"] = {"required": required, "content": content}
    return made


def _type(expected: FieldType) -> JsonObject:
    match expected:
        case Schema():
            fields = {**expected.required, **expected.optional}
            made: JsonObject = {
                "type": "object",
                "title": expected.name,
                "properties": {name: _type(inner) for name, inner in fields.items()},
            }
            return {**made, "required": list(expected.required)} if expected.required else made
        case ListOf():
            return {"type": "array", "items": _type(expected.item)}
        case MapOfText():
            return {"type": "object", "additionalProperties": {"type": "string"}}
    return {"type": str(expected)}
