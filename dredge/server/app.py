"""The ASGI application: the route table around one catalog, and beside it the S3 gateway."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dredge.gateway import Gateway
from dredge.graveler.errors import UnsupportedError
from dredge.server import answers
from dredge.server.calls import Backend, Call
from dredge.server.endpoint import TRANSPORT, Endpoint, Operation
from dredge.server.failures import INVALID_ENDPOINT, NOT_IMPLEMENTED
from dredge.server.handlers import objects, reading
from dredge.server.hooks import Hooks
from dredge.server.needs import SIGNED_IN
from dredge.server.routes import BASE_PATH, OPERATIONS, UNBUILT
from dredge.server.uploads import BodyPieces

_FREQUENT = (reading.stat_object, objects.upload_object)
"""Routes are tried one after the other; these are asked for most by far."""


def create_app(backend: Backend, hooks: Hooks | None = None) -> ASGIApp:
    """Build the application.

    Args:
        backend: catalog, accounts, settings.
        hooks: doors for tests; none by default.
    """
    hooks = Hooks() if hooks is None else hooks
    unbuilt = [Operation(method, path, not_built, SIGNED_IN) for method, path in UNBUILT]
    routes: list[BaseRoute] = [
        Route(BASE_PATH + operation.path, Endpoint(operation, backend, hooks), methods=[operation.method])
        for operation in sorted((*OPERATIONS, *unbuilt), key=lambda item: item.handler not in _FREQUENT)
    ]
    app = Starlette(
        routes=[*routes, Route("/_health", _alive)],
        exception_handlers={404: _unknown, 405: _unknown},
    )
    app.router.redirect_slashes = False
    gateway = Gateway(backend.catalog, backend.accounts, backend.catalog.clock, BodyPieces)

    async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
        # `send` is a method of uvicorn's connection here, a wrapper further in; hooks that drop connections
        # need what is behind it.
        scope[TRANSPORT] = getattr(getattr(send, "__self__", None), "transport", None)
        send = _dated(send, backend.catalog.clock)
        # As on a real server the signature tells S3 from the API, not the path or the host.
        await (gateway if Gateway.takes(scope) else app)(scope, receive, send)

    return with_transport


def _dated(send: Send, clock: Callable[[], datetime]) -> Send:
    """Give each answer a Date by the service's clock; uvicorn's own would always be this machine's."""

    async def dated(message: Message) -> None:
        if message["type"] == "http.response.start":
            date = format_datetime(clock().astimezone(UTC), usegmt=True).encode("ascii")
            message = {**message, "headers": [*message.get("headers", ()), (b"date", date)]}
        await send(message)

    return dated


def not_built(call: Call) -> Response:
    """Any call that lakeFS has and this server has not."""
    raise UnsupportedError(NOT_IMPLEMENTED)


async def _alive(request: Request) -> Response:
    return PlainTextResponse("alive!")


async def _unknown(request: Request, failure: Exception) -> Response:
    """No such path, or no such method on it: the same words for both, as on a real server."""
    assert isinstance(failure, HTTPException)
    return answers.error(404, INVALID_ENDPOINT)
