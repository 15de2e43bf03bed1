"""Requests to Google Cloud Storage's JSON and XML APIs, tried again while that may help.

What is tried again must be harmless to do twice: reads, writes of the same bytes, and whatever carries a condition on a
generation (the second one then hears that the condition no longer holds).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dredge.errors import UnavailableError
from dredge.storage.gcs.clients import session
from dredge.storage.gcs.errors import PASSING, by_status, translated
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.native import CONNECT_SECONDS, READ_SECONDS

ATTEMPTS = 6
_TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)
_WANTED_SECONDS_MAX = 60.0
_sleep = time.sleep


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def object_url(options: GcsOptions, bucket: str, name: str) -> str:
    """The URL of an object in the JSON API; every byte of its name is one of a single path segment."""
    return f"{bucket_url(options, bucket)}/o/{segment(name)}"


def bucket_url(options: GcsOptions, bucket: str) -> str:
    """The URL of a bucket in the JSON API."""
    return f"{options.endpoint}/storage/v1/b/{segment(bucket)}"


def upload_url(options: GcsOptions, bucket: str) -> str:
    """Where objects are written to in the JSON API."""
    return f"{options.endpoint}/upload/storage/v1/b/{segment(bucket)}/o"


def segment(name: str) -> str:
    """A name as one segment of a URL's path."""
    return quote(name, safe="")


def send(options: GcsOptions, method: str, url: str, doing: str, **more: Any) -> Answer:
    """Make one request and read its answer, whatever its status.

    Args:
        options: how to reach the service.
        method: of HTTP.
        url: whole.
        doing: for messages.
        more: `params`, `data` and `headers`, as requests takes them.

    An answer that the service compressed on the way is unpacked; the bytes of an object stay as they are stored, also
    where it says that they are compressed.

    Raises:
        UnavailableError: no answer came.
        ConfigError: there are no credentials, or they are not accepted.
    """
    http = session(options)
    more["params"] = params = payer(options, url) | (more.get("params") or {})
    with translated(doing), http.request(method, url, timeout=_TIMEOUT, stream=True, **more) as response:
        is_object = params.get("alt") == "media" and response.status_code in {200, 206}
        body = response.raw.read(decode_content=not is_object)
        return Answer(response.status_code, response.headers, body)


def payer(options: GcsOptions, url: str) -> dict[str, str]:
    """The parameter that says who pays, where requesters do: of requests to the JSON API that begin something."""
    is_json = "/storage/v1/b" in url and "upload_id=" not in url
    return {"userProject": options.user_project} if options.user_project and is_json else {}


def open_stream(options: GcsOptions, url: str, doing: str, **more: Any) -> Any:
    """Begin to read an answer; tried again while that may help. Gives the library's response, to be closed."""
    for attempt in range(ATTEMPTS):
        last, wanted = attempt + 1 == ATTEMPTS, ""
        try:
            http = session(options)
            params = payer(options, url) | (more.get("params") or {})
            with translated(doing):
                response = http.request(
                    "GET", url, timeout=_TIMEOUT, stream=True, **(more | {"params": params})
                )
        except UnavailableError:
            if last:
                raise
        else:
            if last or response.status_code not in PASSING:
                return response
            response.close()
            wanted = response.headers.get("Retry-After", "")
        pause(attempt, wanted)
    raise AssertionError("unreachable")


def ask(
    options: GcsOptions, method: str, url: str, doing: str, expected: tuple[int, ...] = (200,), **more: Any
) -> Answer:
    """Make a request that may be made twice, until an answer is there that time will not change.

    Args:
        options: how to reach the service.
        method: of HTTP.
        url: whole.
        doing: for messages.
        expected: statuses that are no errors.
        more: see `send`.

    Raises:
        DredgeError: the answer is an error, in our families.
    """
    for attempt in range(ATTEMPTS):
        last, wanted = attempt + 1 == ATTEMPTS, ""
        try:
            answer = send(options, method, url, doing, **more)
        except UnavailableError:
            if last:
                raise
        else:
            if answer.status in expected:
                return answer
            if last or answer.status not in PASSING:
                raise by_status(answer.status, answer.body, doing)
            wanted = answer.headers.get("Retry-After", "")
        pause(attempt, wanted)
    raise AssertionError("unreachable")


def pause(attempt: int, wanted: str = "") -> None:
    """Wait before the next attempt: longer each time, and not in step with others.

    Args:
        attempt: how many there were before the last one.
        wanted: seconds that the service asked for, as it wrote them; "" for none.
    """
    least = min(float(wanted), _WANTED_SECONDS_MAX) if wanted.isdecimal() else 0.0
    _sleep(max(least, min(20.0, 0.2 * 2**attempt) * (0.5 + random.random())))
