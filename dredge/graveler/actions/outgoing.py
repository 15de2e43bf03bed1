"""HTTP requests that hooks make, and how their answers look in a hook's log.

    Request duration: 12.3ms

    Response:
    HTTP/1.1 200 OK
    Content-Type: text/plain

    …

A redirection to another host loses the hook's own headers, which may be secrets. A real server sends them on.

Source: lakeFS pkg/actions/webhook.go (doHTTPRequestResponseWithLog).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import responses

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import Log
from dredge.graveler.actions.text import duration

BODY_BYTES_MAX = 1 << 20
"""Of an answer this much is read; it is what a hook's log can hold."""
_REDIRECTS = 10
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: status, reason, headers by name, body."""

    status: int
    reason: str
    headers: Mapping[str, list[str]]
    body: bytes


def send(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float, log: Log
) -> Answer:
    """Make a request, and log how long it took and what came back.

    Args:
        method: HTTP method.
        url: whole URL, with its query.
        headers: headers of the request.
        body: body of the request.
        timeout: seconds for all of it.
        log: the hook's log.

    Raises:
        HookError: no answer.
    """
    started = time.monotonic()
    try:
        answer = exchange(method, url, headers, body, timeout)
    finally:
        log.write(f"\nRequest duration: {duration(time.monotonic() - started)}\n")
    log.write("\nResponse:\n" + _dump(answer))
    return answer


def exchange(method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float) -> Answer:
    """Make a request, and follow redirections.

    Raises:
        HookError: no answer. The text never has the query, where secrets may be.
    """
    import urllib3

    shown = f'{method.capitalize()} "{url.partition("?")[0]}"'
    if not url.startswith(("http://", "https://")):
        raise HookError(f"{shown}: unsupported protocol scheme")
    retry = urllib3.Retry(
        total=None,
        connect=0,
        read=0,
        status=0,
        other=0,
        redirect=_REDIRECTS,
        remove_headers_on_redirect=[*urllib3.Retry.DEFAULT_REMOVE_HEADERS_ON_REDIRECT, *headers],
    )
    deadline = time.monotonic() + timeout
    try:
        with urllib3.PoolManager(num_pools=1) as pool:
            response = pool.request(
                method,
                url,
                body=body,
                headers=dict(headers),
                timeout=urllib3.Timeout(total=timeout),
                retries=retry,
                preload_content=False,
            )
            content = _read(response, deadline, shown)
    except (urllib3.exceptions.HTTPError, ValueError, OSError) as error:
        why = getattr(error, "reason", None) or error
        late = isinstance(why, urllib3.exceptions.TimeoutError | TimeoutError) and not isinstance(
            why, urllib3.exceptions.NewConnectionError
        )
        raise HookError(f"{shown}: {'context deadline exceeded' if late else _reason(why)}") from None
    found: dict[str, list[str]] = {}
    for name, value in response.headers.items():
        found.setdefault(_canonical(name), []).append(value)
    reason = response.reason or responses.get(response.status, "")
    return Answer(response.status, reason, found, content)


def _read(response: object, deadline: float, shown: str) -> bytes:
    """Read a body, up to the limit and the deadline: a server may send it ever so slowly."""
    chunks: list[bytes] = []
    size = 0
    for chunk in response.stream(_CHUNK, decode_content=True):  # type: ignore[attr-defined]
        chunks.append(chunk)
        size += len(chunk)
        if size >= BODY_BYTES_MAX:
            break
        if time.monotonic() > deadline:
            raise HookError(f"{shown}: context deadline exceeded while reading body")
    return b"".join(chunks)[:BODY_BYTES_MAX]


def _reason(error: Exception) -> str:
    """Why a connection failed, without the URL that urllib3 puts into its texts."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _dump(answer: Answer) -> str:
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
    lines += [f"{name}: {value}" for name, values in sorted(answer.headers.items()) for value in values]
    return "\r\n".join(lines) + "\r\n\r\n" + answer.body.decode("utf-8", "replace")


def _canonical(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))
