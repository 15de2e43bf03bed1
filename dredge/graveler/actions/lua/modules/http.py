"""The module net/http.

    code, body, headers, status = http.request("https://…")
    code, body, headers, status = http.request("https://…", "posted")
    code, body, headers, status = http.request({url = …, method = "PUT", body = …, headers = {Accept = "text/csv"}})

Source: lakeFS pkg/actions/lua/net/http.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dredge.graveler.actions.lua.library import Library, Returns, function
from dredge.graveler.actions.outgoing import exchange

TIMEOUT_SECONDS = 30.0


def _headers(found: Any) -> Mapping[str, str]:
    """Headers by name; several values of one are joined."""
    if not isinstance(found, Mapping):
        return {}
    joined: dict[str, str] = {}
    for name, value in found.items():
        values = list(value.values()) if isinstance(value, Mapping) else value
        several = values if isinstance(values, list) else [values]
        joined[name] = ", ".join(each for each in several if isinstance(each, str))
    return joined


def library(seconds_left: Callable[[], float]) -> Library:
    """The module for one script.

    Args:
        seconds_left: time until the script is ended.
    """

    def send(url: Any, method: Any, body: Any, headers: Any) -> Returns:
        if not isinstance(url, str) or not url:
            raise ValueError("missing request url")
        content = body.encode() if isinstance(body, str) else None
        default = "GET" if content is None else "POST"
        chosen = method if isinstance(method, str) else default
        timeout = min(TIMEOUT_SECONDS, seconds_left())
        answer = exchange(chosen, url, _headers(headers), content, timeout)
        shown = {name: each[0] if len(each) == 1 else each for name, each in answer.headers.items()}
        return Returns((answer.status, answer.body, shown, f"{answer.status} {answer.reason}"))

    def request(first: Any, body: str | None) -> Returns:
        if isinstance(first, str):
            return send(first, None, body, None)
        return send(first.get("url"), first.get("method"), first.get("body"), first.get("headers"))

    return {"request": function("a u?", request)}
