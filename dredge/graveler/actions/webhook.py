"""Webhooks: the event is posted as JSON, and any answer but 2xx refuses.

    properties:
      url: https://checks.example.com/merge
      timeout: 30s                                    optional, a minute by default
      query_params: {prefix: public/, disallow: [user_, private_]}
      headers: {Authorization: "{{ ENV.LAKEFSACTION_TOKEN }}"}

Source: lakeFS pkg/actions/webhook.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import Log, Run
from dredge.graveler.actions.information import information
from dredge.graveler.actions.outgoing import send
from dredge.graveler.actions.text import parse_duration, to_json
from dredge.graveler.actions.variables import Filled, Redaction, Variables
from dredge.graveler.catalog.events import Event
from dredge.graveler.errors import InvalidValueError

TIMEOUT_SECONDS = 60.0


class WebhookHook:
    """Posts events.

    Args:
        properties: of the hook.
        variables: that it may use.
        clock: the time in events, aware UTC.

    Raises:
        HookError: a property is wrong.
    """

    def __init__(
        self, properties: Mapping[str, Any], variables: Variables, clock: Callable[[], datetime]
    ) -> None:
        url = properties["url"]
        if not isinstance(url, str):
            raise HookError("webhook url must be string: webhook wrong format", failed=False)
        self._url = url
        self._clock = clock
        self._query = _query_params(properties.get("query_params", {}), variables)
        self._headers = _headers(properties.get("headers", {}), variables)
        self._timeout = TIMEOUT_SECONDS
        timeout = properties.get("timeout")
        if isinstance(timeout, str) and timeout:
            try:
                self._timeout = parse_duration(timeout)
            except InvalidValueError as error:
                raise HookError(f"webhook request duration: {error}", failed=False) from None
        self._redaction = variables.redaction()

    @property
    def redaction(self) -> Redaction:
        """Hides its secrets."""
        return self._redaction

    def run(self, event: Event, run: Run, log: Log) -> None:
        """Post an event.

        Raises:
            HookError: no answer, or none that approves.
        """
        body = to_json(information(event, run, self._clock()))
        headers = {**self._headers, "Content-Type": Filled("application/json")}
        log.write(f"Request:\nPOST {self._url}\nQuery Params:\n")
        log.write("".join(f"{name}: {value.shown}\n" for name, value in self._query))
        log.write("Headers:\n" + "".join(f"{name}: {value.shown}\n" for name, value in headers.items()))
        log.write(f"Request Body:\n{body}\n\n")
        sent = {name: value.value for name, value in headers.items()}
        answer = send("POST", self._whole_url(), sent, body.encode(), self._timeout, log)
        if not 200 <= answer.status < 300:
            raise HookError(f"webhook request failed (status code: {answer.status})")

    def _whole_url(self) -> str:
        """The URL with its own query and the parameters, in order of their names."""
        parts = urlsplit(self._url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        query += [(name, value.value) for name, value in self._query]
        return urlunsplit(parts._replace(query=urlencode(sorted(query, key=lambda each: each[0]))))


def _query_params(found: object, variables: Variables) -> list[tuple[str, Filled]]:
    if not isinstance(found, dict):
        raise HookError(
            "extracting query params: unsupported query params: webhook wrong format", failed=False
        )
    return [(name, value) for name, values in found.items() for value in _values(values, variables)]


def _values(found: object, variables: Variables) -> Iterator[Filled]:
    values = found if isinstance(found, list) else [found]
    for each in values:
        if not isinstance(each, str):
            what = (
                "query params array should contains only strings"
                if isinstance(found, list)
                else "query params single value should be of type string"
            )
            raise HookError(f"extracting query params: {what}: webhook wrong format", failed=False)
        yield variables.fill(each)


def _headers(found: object, variables: Variables) -> dict[str, Filled]:
    if not isinstance(found, dict):
        raise HookError("extracting headers: unsupported headers: webhook wrong format", failed=False)
    if not all(isinstance(value, str) for value in found.values()):
        raise HookError(
            "extracting headers: headers array should contains only strings: webhook wrong format",
            failed=False,
        )
    return {name: variables.fill(value) for name, value in found.items()}
