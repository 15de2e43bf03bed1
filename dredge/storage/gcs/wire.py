"""Requests to Google Cloud Storage's JSON and XML APIs, tried again while that may help.

What is tried again must be harmless to do twice: reads, writes of the same bytes, and whatever carries a condition on a
generation (the second one then hears that the condition no longer holds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dredge.errors import UnavailableError
from dredge.storage.gcs.clients import session
from dredge.storage.gcs.errors import by_status, translated
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.native import CONNECT_SECONDS, READ_SECONDS

_TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)


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


def open_once(
    options: GcsOptions, method: str, url: str, doing: str, expected: tuple[int, ...], **more: Any
) -> Any:
    """Make one request; gives the library's response, to be closed.

    Args:
        options: how to reach the service.
        method: of HTTP.
        url: whole.
        doing: for messages.
        expected: statuses that are no errors.
        more: as requests takes it.

    Raises:
        DredgeError: the answer is an error, in our families.
    """
    http = session(options)
    params = payer(options, url) | (more.pop("params", None) or {})
    with translated(doing):
        response = http.request(method, url, timeout=_TIMEOUT, params=params, **more)
        if response.status_code in expected:
            return response
        with response:
            raise by_status(response.status_code, response.content, doing)


def open_stream(options: GcsOptions, url: str, doing: str, **more: Any) -> Any:
    """Begin to read an object; tried again while that may help. Gives the library's response, to be closed."""
    return retried(options, lambda: open_once(options, "GET", url, doing, (200, 206), stream=True, **more))


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

    def attempt() -> Answer:
        answer = send(options, method, url, doing, **more)
        if answer.status in expected:
            return answer
        raise by_status(answer.status, answer.body, doing)

    return retried(options, attempt)


def retried[T](options: GcsOptions, attempt: Callable[[], T]) -> T:
    """Try until it is not the service's or the network's fault, for `retry_seconds` at most."""
    session(options)
    from google.api_core.exceptions import RetryError
    from google.api_core.retry import Retry, if_exception_type

    again = Retry(if_exception_type(UnavailableError), initial=0.2, maximum=20, timeout=options.retry_seconds)
    try:
        return again(attempt)()
    except RetryError as error:
        raise error.cause or error from None
