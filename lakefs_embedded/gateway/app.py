"""The gateway as an ASGI application: signature, route, handler in a worker thread, errors, access log.

Verifying a signature may read the key from the store, so a worker thread does it before it serves the request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dredge.errors import DredgeError, UnavailableError
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.gateway import responses, routes
from lakefs_embedded.gateway.errors import (
    S3Error,
    UnknownOperationError,
    as_lakefs,
    missing_repository,
    to_s3_error,
)
from lakefs_embedded.gateway.payload import Payload
from lakefs_embedded.gateway.requests import AccessControl, AccessKey, S3Request, Target
from lakefs_embedded.gateway.sigv4 import Claim, RawRequest, is_signed, read_claim, verify

access_log = logging.getLogger("lakefs_embedded.server.access")

SMALL_BODY = 64 << 10  # bytes
CLIENT_GONE = 499


@dataclass(slots=True)
class _Progress:
    """The progress of a request: the name of its handler, or ""."""

    operation: str = ""


type BodyReader = Callable[[Request], Iterator[bytes]]


class Gateway:
    """Serves S3 requests; `read_body` iterates over a large body in a worker thread, blocking until bytes arrive."""

    def __init__(
        self,
        catalog: Catalog,
        access_control: AccessControl,
        clock: Callable[[], datetime],
        read_body: BodyReader,
    ) -> None:
        self._catalog = catalog
        self._gatekeeper = access_control
        self._clock = clock
        self._read_body = read_body

    @staticmethod
    def accepts(scope: Scope) -> bool:
        """Whether a request is for the gateway: signed with an AWS signature, on any path."""
        return scope["type"] == "http" and is_signed(scope["headers"], scope["query_string"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        started = time.perf_counter()
        body_asked = False

        async def receiving() -> Message:
            nonlocal body_asked
            body_asked = True
            return await receive()

        request = Request(scope, receiving)
        raw = RawRequest(scope["method"], scope["raw_path"], scope["query_string"], scope["headers"])
        request_id = responses.new_request_id()
        progress = _Progress()
        try:
            body = await self._body(request)
            response = await run_in_threadpool(self._serve, raw, body, progress)
        except ClientDisconnect:
            self._log(raw, CLIENT_GONE, started, request_id)
            return
        except Exception as error:
            response = self._error(raw, error, progress, request_id)
        response.headers["x-amz-request-id"] = request_id
        if not body_asked and request.headers.get("expect", "").lower() == "100-continue":
            # The client waits for "100 Continue" and may never send its body: the next bytes on this
            # connection could be the body or another request.
            response.headers["connection"] = "close"
        await response(scope, receive, send)
        self._log(raw, response.status_code, started, request_id)

    @property
    def _follows_lakefs(self) -> bool:
        return self._catalog.settings.profile == "lakefs"

    def _error(self, raw: RawRequest, error: Exception, progress: _Progress, request_id: str) -> Response:
        if isinstance(error, UnknownOperationError) and self._follows_lakefs:
            return responses.empty(404)
        found = missing_repository(raw.path, error) or to_s3_error(
            error, reading=raw.method in ("GET", "HEAD")
        )
        return responses.error(
            as_lakefs(found, progress.operation) if self._follows_lakefs else found,
            resource=raw.path.decode("latin-1"),
            request_id=request_id,
            with_body=raw.method != "HEAD",
        )

    def _authenticate(self, raw: RawRequest) -> tuple[Claim, AccessKey]:
        claim = read_claim(raw)
        key = self._identify(claim.access_key_id)
        verify(raw, claim, key.secret, self._clock())
        return claim, key

    def _serve(self, raw: RawRequest, body: Iterator[bytes], progress: _Progress) -> Response:
        claim, key = self._authenticate(raw)
        target = Target.of_url(raw.path)
        query = _query_of(raw)
        try:
            handler = routes.find_handler(raw.method, target, query)
        except UnknownOperationError:
            self._catalog.repositories.get_repository(
                target.repository
            )  # a missing repository is the first error
            raise
        progress.operation = handler.__name__
        return handler(
            S3Request(
                catalog=self._catalog,
                raw=raw,
                target=target,
                query=query,
                payload=Payload(raw, claim, key.secret, body),
                user=key.user,
                access_control=self._gatekeeper,
                base_url=f"http://{raw.text('host')}",
            )
        )

    def _identify(self, access_key_id: str) -> AccessKey:
        try:
            return self._gatekeeper.identify(access_key_id)
        except UnavailableError:
            raise
        except DredgeError:
            raise S3Error("InvalidAccessKeyId") from None

    async def _body(self, request: Request) -> Iterator[bytes]:
        length = request.headers.get("content-length")
        if length is not None and length.isdecimal() and int(length) <= SMALL_BODY:
            data = await request.body()
            return iter((data,)) if data else iter(())
        if length is None and "transfer-encoding" not in request.headers:
            return iter(())
        return self._read_body(request)

    def _log(self, raw: RawRequest, status: int, started: float, request_id: str) -> None:
        if access_log.isEnabledFor(logging.INFO):
            path = raw.path.decode("ascii", "replace")
            query = raw.query.decode("ascii", "replace")
            if query and "Signature=" not in query:  # a pre-signed URL works like a key until it expires
                path = f"{path}?{query}"
            milliseconds = (time.perf_counter() - started) * 1000
            access_log.info("s3 %s %s %d %.1f ms %s", raw.method, path, status, milliseconds, request_id)


def _query_of(raw: RawRequest) -> dict[str, str]:
    query: dict[str, str] = {}
    try:
        for name, value in raw.pairs():
            query.setdefault(name.decode(), value.decode())
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The query is not UTF-8.") from None
    return query
