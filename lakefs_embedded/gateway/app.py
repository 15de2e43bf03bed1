"""The gateway as an ASGI application: signature, route, handler in a worker thread, errors, access log.

Verifying a signature may read the key from the store, so a worker thread does it before it serves the request. Every
operation is a row: HTTP method, level of the URL, query parameter, handler. A query parameter for an unsupported
subresource (`?acl`, `?policy`, …) is refused: the plain operation of `PUT ?acl` would overwrite the object with its
access list.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dredge.errors import DredgeError, UnavailableError
from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.model import Credential
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import (
    S3Error,
    UnknownOperationError,
    as_lakefs,
    missing_repository,
    to_s3_error,
)
from lakefs_embedded.gateway.handlers import listing, multipart, objects
from lakefs_embedded.gateway.payload import Payload
from lakefs_embedded.gateway.requests import S3Request, Target
from lakefs_embedded.gateway.sigv4 import Claim, RawRequest, is_signed, read_claim, verify
from lakefs_embedded.refs.records import PATH_BYTES_MAX

type Handler = Callable[[S3Request], Response]

SERVICE, BUCKET, OBJECT = "service", "bucket", "object"

# (method, level, query parameter, handler): the first matching row is used, so rows with a parameter come first.
OPERATIONS: tuple[tuple[str, str, str, Handler], ...] = (
    ("GET", OBJECT, "uploadId", multipart.list_parts),
    ("GET", OBJECT, "tagging", objects.get_object_tagging),
    ("GET", OBJECT, "", objects.get_object),
    ("HEAD", OBJECT, "", objects.head_object),
    ("PUT", OBJECT, "uploadId", multipart.upload_part),
    ("PUT", OBJECT, "", objects.put_object),
    ("POST", OBJECT, "uploads", multipart.create_multipart_upload),
    ("POST", OBJECT, "uploadId", multipart.complete_multipart_upload),
    ("DELETE", OBJECT, "uploadId", multipart.abort_multipart_upload),
    ("DELETE", OBJECT, "", objects.delete_object),
    ("GET", BUCKET, "location", listing.get_bucket_location),
    ("GET", BUCKET, "versioning", listing.get_bucket_versioning),
    ("GET", BUCKET, "list-type", listing.list_objects_v2),
    ("GET", BUCKET, "", listing.list_objects_v1),
    ("HEAD", BUCKET, "", listing.head_bucket),
    ("PUT", BUCKET, "", listing.create_bucket),
    ("POST", BUCKET, "delete", objects.delete_objects),
    ("GET", SERVICE, "", listing.list_buckets),
)

UNSUPPORTED_SUBRESOURCES = frozenset(
    {
        "accelerate",
        "acl",
        "analytics",
        "attributes",
        "cors",
        "encryption",
        "events",
        "intelligent-tiering",
        "inventory",
        "lambdaArn",
        "legal-hold",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "renameObject",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "session",
        "tagging",
        "torrent",
        "versioning",
        "versions",
        "website",
    }
)


def find_handler(method: str, target: Target, query: Mapping[str, str]) -> Handler:
    """Find the handler of a request. Raises S3Error: no such operation."""
    level = SERVICE if not target.repository else OBJECT if target.ref and target.path else BUCKET
    if level == BUCKET and target.ref:
        # "/<repository>/main" and "/<repository>/main/" are not objects and can never be.
        code = "NoSuchKey" if method in ("GET", "HEAD") else "InvalidURI"
        raise UnknownOperationError(code, "A key is <branch>/<path>.")
    if level == OBJECT and len(target.path.encode()) > PATH_BYTES_MAX:
        raise S3Error("KeyTooLongError")
    if (method, level) == ("GET", BUCKET) and "uploads" in query:
        raise S3Error("NotImplemented", "Listing uploads is not supported.")
    for row_method, row_level, parameter, handler in OPERATIONS:
        if (row_method, row_level) != (method, level) or (parameter and parameter not in query):
            continue
        if not parameter and not UNSUPPORTED_SUBRESOURCES.isdisjoint(query):
            break
        if parameter == "list-type" and query["list-type"] != "2":
            continue
        return handler
    if not UNSUPPORTED_SUBRESOURCES.isdisjoint(query) or (method, level) in (
        ("DELETE", BUCKET),
        ("POST", BUCKET),
    ):
        raise S3Error("ERRLakeFSNotSupported")
    raise S3Error("MethodNotAllowed")


access_log = logging.getLogger("lakefs_embedded.server.access")

SMALL_BODY = 64 << 10  # bytes
CLIENT_GONE = 499


@dataclass(slots=True)
class _Progress:
    """The progress of a request: the name of its handler, or ""."""

    operation: str = ""


type BodyReader = Callable[[Request], Iterator[bytes]]


@dataclass(eq=False)
class Gateway:
    """Serves S3 requests; `read_body` iterates over a large body in a worker thread, blocking until bytes arrive."""

    _catalog: Catalog
    _accounts: Accounts
    _clock: Callable[[], datetime]
    _read_body: BodyReader

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

    def _authenticate(self, raw: RawRequest) -> tuple[Claim, Credential]:
        claim = read_claim(raw)
        key = self._identify(claim.access_key_id)
        verify(raw, claim, key.secret, self._clock())
        return claim, key

    def _serve(self, raw: RawRequest, body: Iterator[bytes], progress: _Progress) -> Response:
        claim, key = self._authenticate(raw)
        target = Target.of_url(raw.path)
        query = _query_of(raw)
        try:
            handler = find_handler(raw.method, target, query)
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
                accounts=self._accounts,
                base_url=f"http://{raw.text('host')}",
            )
        )

    def _identify(self, access_key_id: str) -> Credential:
        try:
            return self._accounts.identify(access_key_id)
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
