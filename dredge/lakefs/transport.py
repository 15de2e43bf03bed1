"""HTTP requests to lakeFS through the official SDK: authenticated, pooled, with timeouts, retried only if safe.

Only lakeFS's own responses count. While lakeFS is redeployed, ingresses, gateways and login pages answer in its place:
`default backend - 404`, HTML, an empty body, JSON of their own. lakeFS's responses are recognized by their form: a
success is a JSON object with the requested keys, an error is a JSON object with a text `message`, and the message of a
404 ends in `not found` or is `invalid API endpoint`. Other responses, of any status, raise `ForeignResponseError`: they
contain no information about the repository, and the request is retried as after a 503 if that is safe. A cached
response, with an `Age` header, may be out of date and counts as foreign; lakeFS never sends one.

The SDK's generated models are not used: they reject responses of real servers (`"branches": null`, two JSON documents
in one body) and take more time than the requests. Its client authenticates and sends; responses are read raw.
"""

import importlib
import importlib.util
import json
import logging
import os
import random
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from dredge import causes
from dredge.connections import (
    ca_bundles,
    check_key,
    check_server_url,
    is_here,
    proxies_for,
    tls_context,
)
from dredge.errors import ConfigError, DredgeError, RefusedError, UnavailableError
from dredge.storage.https import redact
from dredge.storage.parallel import MOST, InFlight

log = logging.getLogger("dredge")

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0
TRIES = 5
_BUSY = (429, 500, 502, 503, 504)
_REFUSED = (429, 503)
_DONE = (200, 201, 202)
NO_CONTENT = 204
NOT_IMPLEMENTED = 501
NO_SUCH_CALL = "invalid API endpoint"
# Of lakeFS servers.
QUESTIONS = InFlight()
_LAKEFS_404 = re.compile(rf"(.*[ :])?not found|{NO_SUCH_CALL}", re.DOTALL)


@dataclass(frozen=True)
class Response:
    """A response; `date` and `age` are headers, "" if missing."""

    status: int
    text: str
    date: str = ""
    age: str = ""

    def json(self) -> Any:
        """Return the body of a success, checked by `Transport.call`."""
        return self.documents[0]

    @property
    def message(self) -> str:
        """lakeFS's message, or the start of the body."""
        documents = self.documents
        message = documents[0].get("message") if documents else None
        return message if isinstance(message, str) else self.text[:200]

    @cached_property
    def documents(self) -> list[dict[str, Any]]:
        """The JSON objects in the body, in order; empty if it has other contents. Some versions answer prepare_commits
        with an error followed by the result."""
        decoder = json.JSONDecoder()
        found: list[dict[str, Any]] = []
        rest = self.text.strip()
        while rest:
            try:
                value, end = decoder.raw_decode(rest)
            except ValueError:
                return []
            if not isinstance(value, dict):
                return []
            found.append(value)
            rest = rest[end:].lstrip()
        return found

    def is_lakefs(self, members: Sequence[str] = ()) -> bool:
        """Whether lakeFS itself sent this response; a success must have the keys `members`."""
        documents = self.documents
        if not documents or self.age not in ("", "0"):
            return False
        if self.status in _DONE:
            return len(documents) == 1 and all(name in documents[0] for name in members)
        message = documents[0].get("message")
        if self.status < 400 or not isinstance(message, str):
            return False
        return self.status != 404 or _LAKEFS_404.fullmatch(message) is not None


class DroppedError(UnavailableError):
    """The connection ended without a response, so it is unknown what the server did."""


class DeniedError(ConfigError, RefusedError):
    """The user lacks the permission, or the repository is read-only or being deleted (403, 410). It never means that
    there are no results."""


class UnsupportedCallError(ConfigError, RefusedError):
    """The server does not implement the call (501)."""


class ForeignResponseError(UnavailableError):
    """Something other than lakeFS responded, so nothing is known about the repository."""

    def __init__(self, call: str, response: Response) -> None:
        self.status = response.status
        body = f"{response.text[:200]!r}" if response.text else "an empty body"
        if response.age not in ("", "0"):
            body = f"{body} from a cache, {response.age} s old"
        super().__init__(
            f"{call}: the response ({response.status}, {body}) is not from lakeFS, but from something in front of it"
            " (an ingress, a gateway, a login page, a cache), or the endpoint is not a lakeFS server. Nothing was"
            " deleted because of it. Check the endpoint; try again when lakeFS answers."
        )


class Transport:
    """Sends requests to a server."""

    def __init__(
        self,
        endpoint: str,
        access_key_id: str,
        secret_access_key: str,
        connections: int = MOST,
        ca_bundle: str | None = None,
    ) -> None:
        base = endpoint.rstrip("/")
        self.server = check_server_url(base, "the lakeFS endpoint", "https://lakefs.example.com")
        check_key(access_key_id, "the access key id of lakeFS")
        check_key(secret_access_key, "the secret access key of lakeFS")
        self.base = base if base.endswith("/api/v1") else f"{base}/api/v1"
        self._key = (access_key_id, secret_access_key)
        self._connections = connections
        self._tls = tls_context([*([ca_bundle] if ca_bundle else []), *ca_bundles(os.environ)], "lakeFS")
        self._shared = self._client()
        _warn_of_clear_text(self.server)

    def call(
        self,
        method: str,
        path: str,
        *,
        names: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        retry: bool | None = None,
        read_seconds: float = READ_SECONDS,
        own_connection: bool = False,
        members: Sequence[str] = (),
        no_content: bool = False,
    ) -> Response:
        """Send a request; returns lakeFS's response with any status.

        Args:
            path: below `/api/v1`, with `{name}` placeholders for `names`, whose values are not percent-encoded.
            retry: retry if the server is busy or lost, or the response is not lakeFS's; None retries GET only.
            own_connection: use a new connection, so that a dropped connection is not a stale one from the pool.
            no_content: success is a 204 without a body. A proxy could have sent it, so the caller reads its write back.

        Raises:
            UnavailableError: no response; DroppedError if the connection broke after the request was sent,
                ForeignResponseError if the response is not lakeFS's.
        """
        retry = method == "GET" if retry is None else retry
        client = self._client() if own_connection else self._shared
        for attempt in range(1, TRIES + 1):
            last = not retry or attempt == TRIES
            try:
                response = self._once(client, method, path, names, query, body, read_seconds)
            except UnavailableError as error:
                if last:
                    raise
                log.info("%s %s: %s; retrying", method, path, error)
            else:
                if response.status == NOT_IMPLEMENTED:
                    raise refuse(response, f"{method} {path}")
                if response.status in _REFUSED:
                    QUESTIONS.refused()
                own = response.is_lakefs(members) or (no_content and response.status == NO_CONTENT)
                if last and not own:
                    raise ForeignResponseError(f"{method} {path}", response)
                if last or (own and (response.status not in _BUSY or response.message == NO_SUCH_CALL)):
                    return response
                log.info("%s %s: %d %s; retrying", method, path, response.status, response.message)
            time.sleep(min(10.0, 0.2 * 2**attempt) * (0.5 + random.random() / 2))
        raise AssertionError("unreachable")

    def _once(
        self,
        client: Any,
        method: str,
        path: str,
        names: Mapping[str, str] | None,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        read_seconds: float,
    ) -> Response:
        import urllib3.exceptions as net
        from lakefs_sdk.exceptions import ApiException

        headers = {"Accept": "application/json", "Cache-Control": "no-cache"}
        if method != "GET":
            headers["Content-Type"] = "application/json"
        try:
            response = client.call_api(
                path,
                method,
                path_params=dict(names or {}),
                query_params=list((query or {}).items()),
                header_params=headers,
                body=dict(body) if body is not None else None,
                response_types_map={},
                auth_settings=["basic_auth"],
                _return_http_data_only=False,
                _request_timeout=(CONNECT_SECONDS, read_seconds),
            )
        except ApiException as error:
            if not error.status:
                raise self._unsent(error.reason) from None
            return Response(int(error.status), _text(error.body), *_headers(error.headers))
        except net.ReadTimeoutError:
            raise causes.NO_ANSWER.error(
                f"lakeFS at {self.server} did not answer within {read_seconds:.0f} s"
            ) from None
        except net.HTTPError as error:
            if causes.is_certificate(error) or _never_sent(error):
                raise self._unsent(error) from None
            raise DroppedError(
                f"lakeFS at {self.server} dropped the connection: {self._words(error)}"
            ) from None
        return Response(int(response.status_code), _text(response.raw_data), *_headers(response.headers))

    def _unsent(self, error: object) -> DredgeError:
        if causes.is_certificate(error):
            return causes.CERTIFICATE.error(
                f"lakeFS at {self.server}: the certificate is not accepted: {_reason(error)}"
            )
        return causes.UNREACHABLE.error(f"lakeFS at {self.server} cannot be reached: {self._words(error)}")

    def _words(self, error: object) -> str:
        """The text of an error of the HTTP library, without the path in the user's URL."""
        path = self.base.removeprefix(self.server).removesuffix("/api/v1")
        return redact(str(error).replace(path, "/…")) if path.strip("/") else redact(str(error))

    def _client(self) -> Any:
        load_client()
        import urllib3
        from lakefs_sdk.api_client import ApiClient
        from lakefs_sdk.configuration import Configuration

        configuration: Any = Configuration(host=self.base, username=self._key[0], password=self._key[1])
        configuration.connection_pool_maxsize = self._connections
        go_through_proxy(configuration, self.server)
        configuration.retries = urllib3.Retry(0, redirect=3, raise_on_redirect=False)
        client: Any = ApiClient(configuration)
        client.set_default_header("X-Lakefs-Client", "dredge")
        # The SDK takes one file, and then none of the machine's authorities.
        client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = self._tls
        return client


@cache
def _warn_of_clear_text(server: str) -> None:
    """Warn once in a process if a key pair is sent unencrypted over a network."""
    if server.lower().startswith("http://") and not is_here(server):
        log.warning(
            "lakeFS at %s uses plain http, so others on the network can read its key pair. Use https outside a"
            " trusted network.",
            server,
        )


def refuse(response: Response, what: str) -> DredgeError:
    """Create the error for an unsuccessful response to the request `what`; its type decides about retries."""
    text = f"{what}: lakeFS answered {response.status} {response.message!r}"
    if response.status == NOT_IMPLEMENTED:
        return UnsupportedCallError(
            f"{text}. This server does not implement the call, so the request is not retried. Nothing was deleted. Use"
            " a lakeFS server with the calls of garbage collection (prepare_commits, prepare_uncommited) and of"
            " objects, or enable them in its configuration."
        )
    if response.status == 401:
        return causes.CREDENTIALS.error(text, "Check the access key and secret of the lakeFS connection.")
    if response.status in (403, 410):
        return DeniedError(
            f"{text}. Nothing was deleted. Give the user the permission for this call (docs/install.md)."
        )
    if response.status in (404, 500) and response.message == NO_SUCH_CALL:  # 500 before lakeFS 1.75
        return ConfigError(
            f"{text}: the server does not have this call. Check the endpoint of the lakeFS connection, and the version"
            " of the server."
        )
    if response.status == 404:
        return causes.MISSING.error(text)
    if response.status in (409, 412):
        return causes.CONFLICT.error(text)
    if response.status in _BUSY or response.status >= 500:
        return causes.BUSY.error(text, "Nothing was deleted. Try again later.")
    return causes.REJECTED.error(text)


def _never_sent(error: BaseException) -> bool:
    import urllib3.exceptions as net

    kinds = (net.NewConnectionError, net.ConnectTimeoutError, net.NameResolutionError, net.ProxyError)
    return isinstance(error, kinds) or isinstance(getattr(error, "reason", None), kinds)


def _reason(error: object) -> str:
    """OpenSSL's part of urllib3's message."""
    found = re.search(r"certificate verify failed: ([^(]*)", str(error))
    return found[1].strip() if found else "it cannot be verified"


def _headers(headers: Mapping[str, str] | None) -> tuple[str, str]:
    """Return the Date and Age headers; "" if missing."""
    given = headers or {}
    return given.get("Date") or "", given.get("Age") or ""


def _text(body: bytes | str | None) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else body.decode("utf-8", "replace")


_PACKAGES = ("lakefs_sdk", "lakefs_sdk.models")
# In an order in which no part needs a name of the package that is loaded later.
_PARTS = ("exceptions", "configuration", "rest", "api_response", "api_client")

_executing = threading.RLock()

# Names of packages that were not executed yet.
_late: set[str] = set()


def load_client() -> None:
    """Load only the parts of the SDK that send requests, because the whole package takes much longer."""
    with _executing:
        if _PACKAGES[0] not in sys.modules:
            for name in _PACKAGES:
                _put_off(name)
            for name in _PARTS:
                importlib.import_module(f"{_PACKAGES[0]}.{name}")


def go_through_proxy(configuration: Any, server: str) -> None:
    """Set the environment's proxy: the SDK reads no variables. Like lakectl, requests to this machine bypass it."""
    import urllib3

    for url in () if is_here(server) else proxies_for(server).values():
        configuration.proxy = url
        proxy = urlsplit(url)
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=pair)


class _LatePackage(ModuleType):
    """A package, executed on the first missing name; other threads wait for it."""

    def __getattr__(self, name: str) -> Any:
        with _executing:
            self._execute()
        if name in vars(self):
            return vars(self)[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _execute(self) -> None:
        """Execute the package once."""
        spec = self.__spec__
        if self.__name__ in _late and spec is not None and spec.loader is not None:
            _late.remove(self.__name__)
            try:
                spec.loader.exec_module(self)
            except BaseException:
                _late.add(self.__name__)
                raise


def _put_off(name: str) -> None:
    """Register a package as loaded without executing it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return  # importing a part of it will say so
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _LatePackage
    _late.add(name)
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)
