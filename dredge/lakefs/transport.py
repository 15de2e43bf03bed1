"""One HTTP request to lakeFS through the official SDK: signed, pooled, bounded in time, retried only where
that is safe.

The SDK's generated models are not used: they refuse answers that real servers give (`"branches": null`, two
JSON documents in one body) and cost more than the requests. Its client signs and sends; answers come back
raw.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.errors import (
    ConfigError,
    ConflictError,
    DredgeError,
    FormatError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)

log = logging.getLogger("dredge")

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0
TRIES = 5
_BUSY = (429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a body, and the Date header; "" when there is none."""

    status: int
    text: str
    date: str = ""

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            FormatError: it is none; a proxy or another server answered.
        """
        try:
            return json.loads(self.text)
        except ValueError:
            raise FormatError(
                f"the server's answer ({self.status}) is not JSON: {self.text[:200]!r}. Is the endpoint a"
                " lakeFS server?"
            ) from None

    @property
    def message(self) -> str:
        """lakeFS's own words, or the start of the body."""
        try:
            value = json.loads(self.text)
        except ValueError:
            return self.text[:200]
        return str(value.get("message", "")) if isinstance(value, dict) else self.text[:200]


class DroppedError(UnavailableError):
    """The connection ended without an answer: nobody knows what the server did."""


class Transport:
    """Sends requests to one server.

    Args:
        endpoint: URL, with or without `/api/v1`.
        access_key_id: of the key pair.
        secret_access_key: of the key pair.
        connections: kept open at once.
    """

    def __init__(
        self, endpoint: str, access_key_id: str, secret_access_key: str, connections: int = 16
    ) -> None:
        base = endpoint.rstrip("/")
        if not base.startswith(("http://", "https://")):
            raise ConfigError(
                f"the lakeFS endpoint must be a URL such as https://lakefs.example.com, not {endpoint!r}"
            )
        self.base = base if base.endswith("/api/v1") else f"{base}/api/v1"
        self._key = (access_key_id, secret_access_key)
        self._connections = connections
        self._shared = self._client()

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
    ) -> Answer:
        """Send a request.

        Args:
            method: GET, POST or PUT.
            path: below `/api/v1`, with `{name}` places.
            names: values for the places; quoted here.
            query: parameters of the query.
            body: JSON.
            retry: whether a busy or lost server is asked again; None means for GET only.
            read_seconds: how long to wait for the answer.
            own_connection: use a new connection, so that a drop cannot be a kept one gone stale.

        Returns:
            The answer, whatever its status.

        Raises:
            UnavailableError: no answer; DroppedError when the connection broke after the request was sent.
        """
        again = method == "GET" if retry is None else retry
        client = self._client() if own_connection else self._shared
        for attempt in range(1, TRIES + 1):
            last = not again or attempt == TRIES
            try:
                answer = self._once(client, method, path, names, query, body, read_seconds)
            except UnavailableError as error:
                if last:
                    raise
                log.info("%s %s: %s; asking again", method, path, error)
            else:
                if last or answer.status not in _BUSY:
                    return answer
                log.info("%s %s: %d %s; asking again", method, path, answer.status, answer.message)
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
    ) -> Answer:
        import urllib3.exceptions as net
        from lakefs_sdk.exceptions import ApiException

        headers = {"Accept": "application/json"}
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
                raise UnavailableError(f"lakeFS at {self.base} cannot be reached: {error.reason}") from None
            return Answer(int(error.status), _text(error.body), _date(error.headers))
        except (net.NewConnectionError, net.ConnectTimeoutError, net.NameResolutionError) as error:
            raise UnavailableError(f"lakeFS at {self.base} cannot be reached: {error}") from None
        except net.ReadTimeoutError:
            raise UnavailableError(
                f"lakeFS at {self.base} did not answer within {read_seconds:.0f} s"
            ) from None
        except net.HTTPError as error:
            if _never_sent(error):
                raise UnavailableError(f"lakeFS at {self.base} cannot be reached: {error}") from None
            raise DroppedError(f"lakeFS at {self.base} dropped the connection: {error}") from None
        return Answer(int(response.status_code), _text(response.raw_data), _date(response.headers))

    def _client(self) -> Any:
        import urllib3
        from lakefs_sdk.api_client import ApiClient
        from lakefs_sdk.configuration import Configuration

        configuration: Any = Configuration(host=self.base, username=self._key[0], password=self._key[1])
        configuration.connection_pool_maxsize = self._connections
        configuration.retries = urllib3.Retry(0, redirect=3, raise_on_redirect=False)
        client: Any = ApiClient(configuration)
        client.set_default_header("X-Lakefs-Client", "dredge")
        return client


def refuse(answer: Answer, what: str) -> DredgeError:
    """Make the error of an answer that is no success, by what the handler should do about it.

    Args:
        answer: with a status of 400 or more.
        what: the thing that was asked for, for the message.
    """
    text = f"{what}: lakeFS answered {answer.status} {answer.message!r}"
    if answer.status == 401:
        return ConfigError(f"{text}. Check the access key and secret of the lakeFS connection.")
    if answer.status in (403, 410):
        # Read-only, protected, or being deleted: asking again changes nothing, and it is no "empty".
        return RefusedError(f"{text}. Nothing was deleted.")
    if answer.status == 404:
        return NotFoundError(text)
    if answer.status in (409, 412):
        return ConflictError(text)
    if answer.status in _BUSY or answer.status >= 500:
        return UnavailableError(f"{text}. Nothing was deleted; try again later.")
    return ConfigError(text)


def _never_sent(error: BaseException) -> bool:
    import urllib3.exceptions as net

    reason = getattr(error, "reason", None)
    kinds = (net.NewConnectionError, net.ConnectTimeoutError, net.NameResolutionError)
    return isinstance(reason, kinds)


def _date(headers: Mapping[str, str] | None) -> str:
    return (headers or {}).get("Date") or ""


def _text(body: bytes | str | None) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else body.decode("utf-8", "replace")
