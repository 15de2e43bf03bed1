"""One operation as an ASGI application: faults, authentication, checks, handler, errors, access log.

Handlers are blocking functions, because the key-value store and the object store block, and run in a worker thread.
The event loop only reads and writes sockets.

Tests may inspect every request before it is served, and fail it on purpose. A rule is called in a worker thread with a
description of the request, so it may block or change the repository through the catalog. It returns a fault, or None to
serve the request.

    with server.faults.injecting(
        lambda request: DropConnection() if request.operation == "prepare_commits" else None
    ): …
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lakefs_embedded.auth.model import User
from lakefs_embedded.server import responses
from lakefs_embedded.server.authentication import COOKIE
from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.requests import ApiRequest, Backend, Query
from lakefs_embedded.server.responses import CLIENT_GONE, RequestError, to_response
from lakefs_embedded.server.schemas import parse_body
from lakefs_embedded.server.uploads import BodyChunks


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request not served yet.

    Attributes:
        operation: name of the handler, such as `prepare_uncommitted` or `get_object`.
        path: path parameters (repository, branch, …).
        number: sequence number of the request on this server, from 1.
    """

    operation: str
    method: str
    path: Mapping[str, str]
    query: str
    number: int


@dataclass(frozen=True, slots=True)
class InjectedResponse:
    """Fault: send this response instead of serving the request, which has no effect.

    Attributes:
        headers: additional response headers; the only headers if `body` is given.
        body: raw body in place of the JSON error; None sends the error.
    """

    status: int
    message: str = "injected fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class DropConnection:
    """Fault: close the connection without sending a byte; `served`: after serving the request."""

    served: bool = False


type Fault = InjectedResponse | DropConnection
type FaultRule = Callable[[IncomingRequest], Fault | None]


class FaultInjector:
    """The fault rules of one server; thread-safe, and may change while the server runs."""

    def __init__(self) -> None:
        self._rules: tuple[FaultRule, ...] = ()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def next_number(self) -> int:
        """Return the next request's sequence number."""
        return next(self._numbers)

    def fault_for(self, request: IncomingRequest) -> Fault | None:
        """Call the rules in the order they were added and return the first fault."""
        for rule in self._rules:
            fault = rule(request)
            if fault is not None:
                return fault
        return None

    @contextmanager
    def injecting(self, rule: FaultRule) -> Iterator[None]:
        """Apply a rule while the block runs."""
        with self._lock:
            self._rules = (*self._rules, rule)
        try:
            yield
        finally:
            with self._lock:
                self._rules = tuple(each for each in self._rules if each is not rule)


access_log = logging.getLogger("lakefs_embedded.server.access")

TRANSPORT = "dredge.transport"  # key in the ASGI scope, see app.create_app
SMALL_BODY = 64 << 10  # bytes
JSON_BODY_MAX = 16 << 20  # bytes; a bulk delete of 1,000 escaped paths of 1,024 bytes takes 6 MiB


class Endpoint:
    """Serves one operation; `faults` may fail a request on purpose."""

    def __init__(self, operation: Operation, backend: Backend, faults: FaultInjector) -> None:
        self._operation = operation
        self._backend = backend
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        started = time.perf_counter()
        request = Request(scope, receive)
        try:
            fault = await self._injected_fault(request) if self._faults else None
            if isinstance(fault, DropConnection):
                if fault.served:
                    with contextlib.suppress(Exception):
                        await self._serve(request)
                await _drop_connection(scope, receive)
                return
            response = await self._serve(request) if fault is None else _injected_response(fault)
        except ClientDisconnect:
            self._log(request, CLIENT_GONE, started)
            return
        except Exception as error:
            response = to_response(error)
        if request.method == "HEAD" and response.status_code >= 400:
            response = responses.empty(response.status_code)
        await response(scope, receive, send)
        self._log(request, response.status_code, started)

    async def _serve(self, request: Request) -> Response:
        schema = self._operation.schema
        user = None if self._operation.public else await self._authenticate(request)
        body = parse_body(await _read_body(request), schema) if schema is not None else {}
        api_request = ApiRequest(
            backend=self._backend,
            path=request.path_params,
            query=Query(_query_of(request)),
            headers=request.headers,
            body=body,
            user=user,
            content=b"" if schema is not None else await _content_of(request),
        )
        return await run_in_threadpool(self._handle, api_request)

    async def _authenticate(self, request: Request) -> User:
        authenticator = self._backend.authenticator
        header = request.headers.get("authorization")
        cookie = None if header else request.cookies.get(COOKIE)
        user = authenticator.authenticate_cached(header, cookie)
        if user is None:
            user = await run_in_threadpool(authenticator.authenticate, header, cookie)
        return user

    def _handle(self, request: ApiRequest) -> Response:
        operation = self._operation
        if operation.permissions:
            request.require(
                *(each.resolve(request.path, request.query, request.body) for each in operation.permissions)
            )
        return operation.handler(request)

    async def _injected_fault(self, request: Request) -> Fault | None:
        incoming = IncomingRequest(
            operation=self._operation.name,
            method=request.method,
            path=dict(request.path_params),
            query=request.url.query,
            number=self._faults.next_number(),
        )
        return await run_in_threadpool(self._faults.fault_for, incoming)

    def _log(self, request: Request, status: int, started: float) -> None:
        self._backend.usage.count()
        if access_log.isEnabledFor(logging.INFO):  # never headers or bodies; the URL stays percent-encoded
            raw = request.scope.get("raw_path", b"").decode("ascii", "replace")
            query = request.scope["query_string"].decode("ascii", "replace")
            url = f"{raw}?{query}" if query else raw
            milliseconds = (time.perf_counter() - started) * 1000
            access_log.info("%s %s %d %.1f ms", request.method, url, status, milliseconds)


async def _content_of(request: Request) -> bytes | Iterator[bytes]:
    length = request.headers.get("content-length")
    if length is not None and length.isdecimal() and int(length) <= SMALL_BODY:
        return await request.body()
    return BodyChunks(request) if length or "transfer-encoding" in request.headers else b""


async def _read_body(request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > JSON_BODY_MAX:
            raise RequestError.body(f"larger than {JSON_BODY_MAX} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _query_of(request: Request) -> QueryParams:
    raw = request.scope["query_string"].decode("latin-1")
    try:
        return QueryParams(parse_qsl(raw, keep_blank_values=True, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise RequestError("the query string is not UTF-8 text") from None


def _injected_response(fault: InjectedResponse) -> Response:
    if fault.body is not None:
        return Response(fault.body, fault.status, dict(fault.headers))
    return responses.json(fault.status, {"message": fault.message}, fault.headers)


async def _drop_connection(scope: Scope, receive: Receive) -> None:
    scope[TRANSPORT].abort()
    while (await receive())["type"] != "http.disconnect":
        pass
