"""Builds a server from its settings: stores, catalog, accounts, and the ASGI application, with the S3 gateway."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dredge.errors import ConfigError, ConflictError
from dredge.storage import ObjectWriter
from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import UnsupportedError
from lakefs_embedded.gateway import Gateway
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.server import responses
from lakefs_embedded.server.authentication import Authenticator
from lakefs_embedded.server.endpoint import TRANSPORT, Endpoint, FaultInjector
from lakefs_embedded.server.handlers import objects
from lakefs_embedded.server.namespaces import Namespaces
from lakefs_embedded.server.operations import AUTHENTICATED, Operation
from lakefs_embedded.server.requests import ApiRequest, Backend
from lakefs_embedded.server.responses import INVALID_ENDPOINT, NOT_IMPLEMENTED, RequestError
from lakefs_embedded.server.routes import AUTH, BASE_PATH, OPERATIONS, UNIMPLEMENTED, WITHOUT_RBAC
from lakefs_embedded.server.settings import ServerSettings
from lakefs_embedded.server.uploads import BodyChunks
from lakefs_embedded.server.usage import Usage

type Clock = Callable[[], datetime]
type OpenNamespace = Callable[[str], ObjectWriter]

SCHEMA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION = b"kv-internal-metadata", b"kv/schema/version", b"4"
HOUSEKEEPING_SECONDS = 3600


def utc_now() -> datetime:
    """Return the time of this machine's clock, aware UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Service:
    """All parts of a running server."""

    app: ASGIApp
    backend: Backend
    faults: FaultInjector
    kv: Store
    resources: ExitStack

    @classmethod
    def build(
        cls,
        settings: ServerSettings,
        *,
        kv: Store | None = None,
        open_namespace: OpenNamespace | None = None,
        clock: Clock = utc_now,
        faults: FaultInjector | None = None,
    ) -> Service:
        """Open the stores and wire the application; raises ConfigError for a store of another lakeFS schema version.

        Args:
            kv: store to use in place of `settings.kv_url`; the caller closes it.
            open_namespace: opens a namespace URI in place of the block store of the settings, for tests.
        """
        with ExitStack() as opening:
            if kv is None:
                kv = open_store(settings.kv_url)
                opening.callback(kv.close)
            check_schema(kv)
            namespaces = Namespaces(settings)
            catalog = Catalog(kv, open_namespace or namespaces.open, clock, settings.catalog_settings)
            opening.callback(catalog.close)
            accounts = _accounts(settings, kv, clock)
            authenticator = Authenticator(
                accounts,
                signing_key=settings.signing_key,
                clock=clock,
            )
            catalog.resume()  # finish what an earlier process left undone
            opening.callback(Housekeeping(catalog.expire_tracked, HOUSEKEEPING_SECONDS).close)
            backend = Backend(catalog, settings, accounts, authenticator, namespaces, Usage(kv, clock))
            faults = FaultInjector() if faults is None else faults
            app = create_app(backend, faults)
            return cls(app, backend, faults, kv, opening.pop_all())

    def close(self) -> None:
        """Finish background work and close the stores opened by `build`."""
        self.resources.close()


def _accounts(settings: ServerSettings, kv: Store, clock: Clock) -> Accounts:
    own = settings.credentials
    owner = None if own is None else (own.user_name, own.access_key_id, own.secret_access_key)
    return Accounts(kv, signing_key=settings.signing_key, clock=clock, owner=owner)


def check_schema(kv: Store) -> None:
    """Write lakeFS's schema version to a new store, and check an existing one; raises ConfigError."""
    try:
        kv.set_if(SCHEMA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION, None)
    except ConflictError:
        found = kv.get(SCHEMA_PARTITION, SCHEMA_KEY)
        if found != SCHEMA_VERSION:
            raise ConfigError(
                f"the key-value store has lakeFS schema {found.decode(errors='replace')}, this server needs "
                f"{SCHEMA_VERSION.decode()}. Nothing was changed."
            ) from None


_PAGE = f"""<!doctype html>
<title>lakeFS (embedded)</title>
<h1>lakeFS (embedded)</h1>
<p>This server has no user interface. Its API is below <code>{BASE_PATH}</code>; S3
clients use this address as their endpoint.
"""
# What follows a collection in a path, and the parameter's name in the API's specification.
_PARAMETERS = {"repositories": "repository", "branches": "branch", "tags": "tag", "refs": "ref"}
_FREQUENT = (objects.stat_object, objects.upload_object)
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
        routes=[*routes, Route("/_health", _health)],
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


log = logging.getLogger(__name__)


class Housekeeping:
    """Calls a function at an interval (after a first pause), in its own thread, until closed.

    A failed call is logged and repeated after the interval.
    """

    def __init__(self, work: Callable[[], object], interval_seconds: float) -> None:
        self._work = work
        self._interval = interval_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-housekeeping", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for a call in progress, and make no more."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self._work()
            except Exception:
                log.exception("housekeeping failed; next attempt in %.0f s", self._interval)
