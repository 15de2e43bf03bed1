"""Pages beside the API, without credentials: health, metrics, the specification, a page for browsers."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from lakefs_embedded.server import responses
from lakefs_embedded.server.errors import INVALID_ENDPOINT, RequestError
from lakefs_embedded.server.handlers.server_info import LAKEFS_VERSION
from lakefs_embedded.server.openapi import specification
from lakefs_embedded.server.routes import BASE_PATH, OPERATIONS
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
