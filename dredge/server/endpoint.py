"""One route as an ASGI application: hooks, credentials, checks, the handler in a worker thread, errors, a
log line.

Handlers are plain blocking functions, because everything they call blocks (key-value store, object store).
The event loop itself only reads and writes sockets.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dredge.auth import User
from dredge.server import answers
from dredge.server.accounts import COOKIE
from dredge.server.bodies import Body, read_body
from dredge.server.calls import Backend, Call
from dredge.server.failures import CLIENT_GONE, RequestError, to_answer
from dredge.server.hooks import Answer, Drop, Hooks, Seen
from dredge.server.needs import Needs
from dredge.server.query import Query
from dredge.server.uploads import BodyPieces

access_log = logging.getLogger("dredge.server.access")

TRANSPORT = "dredge.transport"  # key in the ASGI scope, see app.create_app
SMALL_BODY = 64 << 10
JSON_BODY_MAX = 16 << 20  # a bulk delete of 1,000 paths of 1,024 bytes, escaped, is 6 MiB

type Handler = Callable[[Call], Response]


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the route table.

    Attributes:
        method: of HTTP.
        path: below the API's base path; `{name}` is a parameter.
        handler: what serves it; its name is the operation's.
        needs: what a user must be allowed to do; None: it is open to everybody, without credentials.
        body: the JSON body it takes, if any.
    """

    method: str
    path: str
    handler: Handler
    needs: Needs | None
    body: Body | None = None

    @property
    def public(self) -> bool:
        """Whether it needs no credentials."""
        return self.needs is None

    @property
    def name(self) -> str:
        """Name in hooks and log lines."""
        return self.handler.__name__


class Endpoint:
    """Serves one operation."""

    def __init__(self, operation: Operation, backend: Backend, hooks: Hooks) -> None:
        self._operation = operation
        self._backend = backend
        self._hooks = hooks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        began = time.perf_counter()
        request = Request(scope, receive)
        try:
            fault = await self._ask_hooks(request) if self._hooks else None
            if isinstance(fault, Drop):
                if fault.served:
                    with contextlib.suppress(Exception):
                        await self._serve(request)
                await _drop_connection(scope, receive)
                return
            response = await self._serve(request) if fault is None else _fault_answer(fault)
        except ClientDisconnect:
            self._log(request, CLIENT_GONE, began)
            return
        except Exception as failure:
            response = to_answer(failure)
        if request.method == "HEAD" and response.status_code >= 400:
            response = answers.empty(response.status_code)
        await response(scope, receive, send)
        self._log(request, response.status_code, began)

    async def _serve(self, request: Request) -> Response:
        operation = self._operation
        user = None if operation.public else await self._authenticate(request)
        body = read_body(await _read_whole(request), operation.body) if operation.body is not None else {}
        call = Call(
            backend=self._backend,
            path=request.path_params,
            query=Query(_query_of(request)),
            headers=request.headers,
            body=body,
            user=user,
            content=b"" if operation.body is not None else await _content_of(request),
        )
        return await run_in_threadpool(self._handle, call)

    async def _authenticate(self, request: Request) -> User:
        """Find the user; only when it was not seen for some seconds does this take a worker thread."""
        authenticator = self._backend.authenticator
        header = request.headers.get("authorization")
        cookie = None if header else request.cookies.get(COOKIE)
        user = authenticator.at_hand(header, cookie)
        if user is None:
            user = await run_in_threadpool(authenticator.authenticate, header, cookie)
        return user

    def _handle(self, call: Call) -> Response:
        """Check what the user may do, then do it (in a worker thread)."""
        operation = self._operation
        if operation.needs:
            call.require(*(need.permission(call.path, call.query, call.body) for need in operation.needs))
        return operation.handler(call)

    async def _ask_hooks(self, request: Request) -> Answer | Drop | None:
        seen = Seen(
            operation=self._operation.name,
            method=request.method,
            path=dict(request.path_params),
            query=request.url.query,
            number=self._hooks.next_number(),
        )
        return await run_in_threadpool(self._hooks.ask, seen)

    def _log(self, request: Request, status: int, began: float) -> None:
        """One line a request: never headers or bodies, and the URL only as it was encoded."""
        if access_log.isEnabledFor(logging.INFO):
            raw = request.scope.get("raw_path", b"").decode("ascii", "replace")
            query = request.scope["query_string"].decode("ascii", "replace")
            url = f"{raw}?{query}" if query else raw
            milliseconds = (time.perf_counter() - began) * 1000
            access_log.info("%s %s %d %.1f ms", request.method, url, status, milliseconds)


async def _content_of(request: Request) -> bytes | Iterator[bytes]:
    """The raw body. A small one is read here, which saves the worker thread its way back to the loop."""
    length = request.headers.get("content-length")
    if length is not None and length.isdecimal() and int(length) <= SMALL_BODY:
        return await request.body()
    return BodyPieces(request) if length or "transfer-encoding" in request.headers else b""


async def _read_whole(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > JSON_BODY_MAX:
            raise RequestError.body(f"larger than {JSON_BODY_MAX} bytes")
        parts.append(chunk)
    return b"".join(parts)


def _query_of(request: Request) -> QueryParams:
    """Decode the query strictly: a path that is no UTF-8 is refused, not changed into another path."""
    raw = request.scope["query_string"].decode("latin-1")
    try:
        return QueryParams(parse_qsl(raw, keep_blank_values=True, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise RequestError("the query string is not UTF-8 text") from None


def _fault_answer(fault: Answer) -> Response:
    if fault.body is not None:
        return Response(fault.body, fault.status, dict(fault.headers))
    return answers.answer(fault.status, {"message": fault.message}, fault.headers)


async def _drop_connection(scope: Scope, receive: Receive) -> None:
    """Close the socket with nothing sent; only tests ask for it."""
    scope[TRANSPORT].abort()
    while (await receive())["type"] != "http.disconnect":
        pass
