"""The ASGI application: the routes of the API around one catalog, with the S3 gateway beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakefs_embedded.errors import UnsupportedError
from lakefs_embedded.gateway import Gateway
from lakefs_embedded.server.endpoint import TRANSPORT, Endpoint
from lakefs_embedded.server.errors import NOT_IMPLEMENTED
from lakefs_embedded.server.fault_injection import FaultInjector
from lakefs_embedded.server.handlers import object_reads, object_writes
from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.pages import not_found, side_routes
from lakefs_embedded.server.permissions import AUTHENTICATED
from lakefs_embedded.server.requests import ApiRequest, Backend
from lakefs_embedded.server.routes import BASE_PATH, OPERATIONS, UNIMPLEMENTED
from lakefs_embedded.server.routes.auth import AUTH, WITHOUT_RBAC
from lakefs_embedded.server.uploads import BodyChunks

_FREQUENT = (object_reads.stat_object, object_writes.upload_object)
"""The most frequent operations; Starlette matches routes one after the other, so these come first."""


def create_app(backend: Backend, faults: FaultInjector | None = None) -> ASGIApp:
    """Build the application."""
    faults = FaultInjector() if faults is None else faults
    unimplemented = [
        Operation(method, path, not_implemented, AUTHENTICATED) for method, path in UNIMPLEMENTED
    ]
    served = [_offered(each, backend.settings.rbac) for each in OPERATIONS]
    routes: list[BaseRoute] = [
        Route(BASE_PATH + operation.path, Endpoint(operation, backend, faults), methods=[operation.method])
        for operation in sorted((*served, *unimplemented), key=lambda item: item.handler not in _FREQUENT)
    ]
    app = Starlette(
        routes=[*routes, *side_routes(backend.usage)],
        exception_handlers={404: not_found, 405: not_found},
    )
    app.router.redirect_slashes = False
    gateway = Gateway(backend.catalog, backend.accounts, backend.catalog.clock, BodyChunks)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        # `send` is a method of uvicorn's connection here but a wrapper further in; fault injection needs the
        # transport behind it to drop the connection.
        scope[TRANSPORT] = getattr(getattr(send, "__self__", None), "transport", None)
        send = _with_date(send, backend.catalog.clock)
        # As on a real server the signature separates S3 from the API, not the path or the host.
        await (gateway if Gateway.accepts(scope) else app)(scope, receive, send)

    return dispatch


# uvicorn would use the machine's clock.
def _with_date(send: Send, clock: Callable[[], datetime]) -> Send:
    async def send_with_date(message: Message) -> None:
        if message["type"] == "http.response.start":
            date = format_datetime(clock().astimezone(UTC), usegmt=True).encode("ascii")
            message = {**message, "headers": [*message.get("headers", ()), (b"date", date)]}
        await send(message)

    return send_with_date


def not_implemented(request: ApiRequest) -> Response:
    """Answer any call of lakeFS not implemented in this server."""
    raise UnsupportedError(NOT_IMPLEMENTED)


def _offered(operation: Operation, rbac: str) -> Operation:
    if rbac == "none" and operation in AUTH and operation.name not in WITHOUT_RBAC:
        return replace(operation, handler=not_implemented, permissions=AUTHENTICATED, schema=None)
    return operation
