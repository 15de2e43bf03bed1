"""One HTTP request to lakeFS through the official SDK: signed, pooled, bounded in time, retried only where
that is safe.

Only lakeFS's own words are an answer. Between it and us stand ingresses, gateways and login pages, and while
lakeFS is redeployed they answer in its place: `default backend - 404`, HTML, an empty body, JSON of their own. What
lakeFS says is told from that by its shape: a success is one JSON object with the members that were asked for, an
error a JSON object with a text `message`, and each 404 ends in `not found` or says `invalid API endpoint`. Anything
else is `ForeignAnswerError`, whatever its status: it says nothing about the repository, and is asked again like a
503 where that is safe. So is what a cache kept (it has an `Age`, which lakeFS never sends): it was true once.

The SDK's generated models are not used: they refuse answers that real servers give (`"branches": null`, two
JSON documents in one body) and cost more than the requests. Its client signs and sends; answers come back
raw.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dredge.errors import (
    ConfigError,
    ConflictError,
    DredgeError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)

log = logging.getLogger("dredge")

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0
TRIES = 5
_BUSY = (429, 500, 502, 503, 504)
_DONE = (200, 201, 202)
NOT_IMPLEMENTED = 501
NO_SUCH_CALL = "invalid API endpoint"
_LAKEFS_404 = re.compile(rf"(.*[ :])?not found|{NO_SUCH_CALL}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a body, and the Date and Age headers; "" when there is none."""

    status: int
    text: str
    date: str = ""
    age: str = ""

    def json(self) -> Any:
        """The body of a success: a JSON object, which `Transport.call` has made sure of."""
        return json.loads(self.text)

    @property
    def message(self) -> str:
        """lakeFS's own words, or the start of the body."""
        documents = self.documents
        message = documents[0].get("message") if documents else None
        return message if isinstance(message, str) else self.text[:200]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The JSON objects that the body consists of, one after the other; none when it has anything else.

        Some versions answer prepare_commits with an error and the result behind it.
        """
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
        """Whether lakeFS itself gave this answer.

        Args:
            members: what the JSON object of a success has.
        """
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
    """The connection ended without an answer: nobody knows what the server did."""


class ForeignAnswerError(UnavailableError):
    """Somebody else answered in lakeFS's place, so nothing is known.

    Args:
        call: that was made, for the message.
        answer: that came.

    Attributes:
        status: of the answer.
    """

    def __init__(self, call: str, answer: Answer) -> None:
        self.status = answer.status
        body = f"{answer.text[:200]!r}" if answer.text else "an empty body"
        if answer.age not in ("", "0"):
            body = f"{body} from a cache, {answer.age} s old"
        super().__init__(
            f"{call}: the answer ({answer.status}, {body}) is not lakeFS's own, so it says nothing about the"
            " repository. Something in front of it answered (an ingress, a gateway, a login page, a cache), or the"
            " endpoint is no lakeFS server. Nothing was deleted because of it. Check the endpoint; try again when the"
            " server is back."
        )


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
        members: Sequence[str] = (),
    ) -> Answer:
        """Send a request.

        Args:
            method: GET, POST or PUT.
            path: below `/api/v1`, with `{name}` places.
            names: values for the places; quoted here.
            query: parameters of the query.
            body: JSON.
            retry: whether a busy or lost server is asked again, or one that somebody else answers for; None means
                for GET only.
            read_seconds: how long to wait for the answer.
            own_connection: use a new connection, so that a drop cannot be a kept one gone stale.
            members: what the JSON object of a success has at least.

        Returns:
            lakeFS's answer, whatever its status.

        Raises:
            UnavailableError: no answer; DroppedError when the connection broke after the request was sent,
                ForeignAnswerError when somebody else answered.
            RefusedError: 501.
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
                if answer.status == NOT_IMPLEMENTED:
                    raise refuse(answer, f"{method} {path}")
                known = answer.is_lakefs(members)
                if last and not known:
                    raise ForeignAnswerError(f"{method} {path}", answer)
                if last or (known and (answer.status not in _BUSY or answer.message == NO_SUCH_CALL)):
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
                raise UnavailableError(f"lakeFS at {self.base} cannot be reached: {error.reason}") from None
            return Answer(int(error.status), _text(error.body), *_headers(error.headers))
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
        return Answer(int(response.status_code), _text(response.raw_data), *_headers(response.headers))

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
    if answer.status == NOT_IMPLEMENTED:
        return RefusedError(
            f"{text}. This server does not offer that call and will not later either, so it is not asked again."
            " Nothing was deleted. Use a lakeFS server that offers garbage collection (prepare_commits and"
            " prepare_uncommited) and its object calls, or switch on what its configuration leaves out; a server that"
            " only resembles lakeFS cannot be collected."
        )
    if answer.status == 401:
        return ConfigError(f"{text}. Check the access key and secret of the lakeFS connection.")
    if answer.status in (403, 410):
        # Read-only, protected, or being deleted: asking again changes nothing, and it is no "empty".
        return RefusedError(f"{text}. Nothing was deleted.")
    if answer.status == 404 and answer.message == NO_SUCH_CALL:
        return ConfigError(
            f"{text}: it does not know that call. Check the endpoint of the lakeFS connection, and that the server's"
            " version has the call."
        )
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


def _headers(headers: Mapping[str, str] | None) -> tuple[str, str]:
    """Date and Age."""
    given = headers or {}
    return given.get("Date") or "", given.get("Age") or ""


def _text(body: bytes | str | None) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else body.decode("utf-8", "replace")
