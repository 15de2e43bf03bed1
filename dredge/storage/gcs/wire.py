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

    Raises:
        UnavailableError: no answer came.
        ConfigError: there are no credentials, or they are not accepted.
    """
    http = session(options)
    with translated(doing), http.request(method, url, timeout=_TIMEOUT, stream=True, **more) as response:
        # The bytes as they are stored: an object that says it is compressed stays so.
        return Answer(response.status_code, response.headers, response.raw.read(decode_content=False))


def open_stream(options: GcsOptions, url: str, doing: str, **more: Any) -> Any:
    """Begin to read an answer; tried again while that may help. Gives the library's response, to be closed."""
    for attempt in range(ATTEMPTS):
        last = attempt + 1 == ATTEMPTS
        try:
            with translated(doing):
                response = session(options).request("GET", url, timeout=_TIMEOUT, stream=True, **more)
        except UnavailableError:
            if last:
                raise
        else:
            if last or response.status_code not in PASSING:
                return response
            response.close()
        pause(attempt)
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
        last = attempt + 1 == ATTEMPTS
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
        pause(attempt)
    raise AssertionError("unreachable")


def pause(attempt: int) -> None:
    """Wait before the next attempt: longer each time, and not in step with others."""
    _sleep(min(20.0, 0.2 * 2**attempt) * (0.5 + random.random()))
