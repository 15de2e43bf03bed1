"""Requests to the JSON and XML APIs of Google Cloud Storage, with retries; batches of requests; names of objects.

A retried request must be harmless twice: a read, a write of the same bytes, or a request with a condition on a
generation (the second one fails on the condition).

Source: Cloud Storage documentation, "About Cloud Storage objects" (names), "Batch requests" (multipart/mixed, at
most
100 parts, answered by Content-ID).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dredge.errors import UnavailableError
from dredge.storage.gcs.clients import THROTTLED, by_status, session, translated
from dredge.storage.https import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.keys import is_text
from dredge.storage.options import GcsOptions

NAME_BYTES_MAX = 1024


def is_name(root: str, key: str) -> bool:
    """Whether an object below a root (a prefix that ends with "/", or "") can have this key."""
    if not key or not is_text(key):
        return False
    name = root + key
    if name in {".", ".."} or name.startswith(".well-known/acme-challenge/"):
        return False
    return "\n" not in name and "\r" not in name and len(name.encode()) <= NAME_BYTES_MAX


_TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def object_url(options: GcsOptions, bucket: str, name: str) -> str:
    """URL of an object in the JSON API."""
    return f"{bucket_url(options, bucket)}/o/{segment(name)}"


def bucket_url(options: GcsOptions, bucket: str) -> str:
    """URL of a bucket in the JSON API."""
    return f"{options.endpoint}/storage/v1/b/{segment(bucket)}"


def upload_url(options: GcsOptions, bucket: str) -> str:
    """URL for uploads in the JSON API."""
    return f"{options.endpoint}/upload/storage/v1/b/{segment(bucket)}/o"


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def send(options: GcsOptions, method: str, url: str, doing: str, **more: Any) -> Answer:
    """Make one request and read its answer, with any status.

    Compressed answers are unpacked; the bytes of an object stay as they are stored.
    """
    http = session(options)
    more["params"] = params = payer(options, url) | (more.get("params") or {})
    with translated(doing), http.request(method, url, timeout=_TIMEOUT, stream=True, **more) as response:
        is_object = params.get("alt") == "media" and response.status_code in {200, 206}
        body = response.raw.read(decode_content=not is_object)
        return Answer(response.status_code, response.headers, body)


def payer(options: GcsOptions, url: str) -> dict[str, str]:
    """The parameter with the project to bill."""
    # Only requests to the JSON API take the parameter, and not those that continue an upload.
    is_json = "/storage/v1/b" in url and "upload_id=" not in url
    return {"userProject": options.user_project} if options.user_project and is_json else {}


def open_once(
    options: GcsOptions, method: str, url: str, doing: str, expected: tuple[int, ...], **more: Any
) -> Any:
    """Make one request; returns the library's response, to be closed."""
    http = session(options)
    params = payer(options, url) | (more.pop("params", None) or {})
    with translated(doing):
        response = http.request(method, url, timeout=_TIMEOUT, params=params, **more)
        if response.status_code in expected:
            return response
        with response:
            raise by_status(response.status_code, response.content, doing)


def open_stream(options: GcsOptions, url: str, doing: str, **more: Any) -> Any:
    """Start to read an object, with retries; returns the library's response, to be closed."""
    return retried(options, lambda: open_once(options, "GET", url, doing, (200, 206), stream=True, **more))


def ask(
    options: GcsOptions, method: str, url: str, doing: str, expected: tuple[int, ...] = (200,), **more: Any
) -> Answer:
    """Make a request with retries; it must be harmless twice."""

    def attempt() -> Answer:
        answer = send(options, method, url, doing, **more)
        if answer.status in expected:
            return answer
        raise by_status(answer.status, answer.body, doing)

    return retried(options, attempt)


def retried[T](options: GcsOptions, attempt: Callable[[], T]) -> T:
    """Retry an UnavailableError for at most `retry_seconds`."""
    session(options)
    from google.api_core.exceptions import RetryError
    from google.api_core.retry import Retry, if_exception_type

    again = Retry(if_exception_type(UnavailableError), initial=0.2, maximum=20, timeout=options.retry_seconds)
    try:
        return again(attempt)()
    except RetryError as error:
        raise error.cause or error from None


BATCH_PARTS = 100
_ID = re.compile(r"response-.*\+(\d+)>?$")
_STATUS = re.compile(rb"^HTTP/\d(?:\.\d)? (\d{3})\b")


type Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One request of a batch: method, whole name of the object, parameters."""

    method: str
    name: str
    query: Query = ()


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """The answer to one part."""

    status: int
    body: bytes


def send_batch(
    options: GcsOptions, bucket: str, parts: Sequence[Part], doing: str
) -> list[PartAnswer | None]:
    """Make many requests by one, at most BATCH_PARTS.

    Returns:
        The answers in the order of the parts; None for a part without a clear answer.

    Raises:
        DredgeError: the whole request failed; the outcome of its parts is unknown.
    """
    boundary = secrets.token_hex(16)
    body = b"".join(_written(options, bucket, part, number, boundary) for number, part in enumerate(parts))
    answer = send(
        options,
        "POST",
        f"{options.endpoint}/batch/storage/v1",
        doing,
        data=body + f"--{boundary}--\r\n".encode(),
        headers={"Content-Type": f"multipart/mixed; boundary={boundary}"},
    )
    if answer.status in THROTTLED:  # of the whole: no part was done
        return [PartAnswer(answer.status, answer.body)] * len(parts)
    if answer.status != 200:
        raise by_status(answer.status, answer.body, doing)
    found = _answers(answer.headers.get("Content-Type", ""), answer.body, doing)
    return [found.get(number) for number in range(len(parts))]


def _written(options: GcsOptions, bucket: str, part: Part, number: int, boundary: str) -> bytes:
    url = object_url(options, bucket, part.name)
    path, asked = urlsplit(url).path, [*payer(options, url).items(), *part.query]
    query = f"?{urlencode(asked)}" if asked else ""
    return (
        f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <dredge+{number}>\r\n\r\n"
        f"{part.method} {path}{query} HTTP/1.1\r\n\r\n\r\n"
    ).encode()


def _answers(content_type: str, body: bytes, doing: str) -> dict[int, PartAnswer]:
    # Parts without a number, or with the number of another part, answer nothing.
    if not content_type.startswith("multipart/"):
        raise UnavailableError(f"{doing}: the server answered a batch without parts")
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    found: dict[int, PartAnswer] = {}
    twice: set[int] = set()
    for part in message.walk():
        named = _ID.search(part.get("Content-ID", ""))
        content = part.get_payload(decode=True)
        if named is None or not isinstance(content, bytes):
            continue
        status = _STATUS.match(content.lstrip())
        number = int(named[1])
        if number in found:
            twice.add(number)
        if status is not None:
            found[number] = PartAnswer(int(status[1]), _body(content.lstrip()))
    return {number: answer for number, answer in found.items() if number not in twice}


def _body(content: bytes) -> bytes:
    return re.split(rb"\r?\n\r?\n", content, maxsplit=1)[-1].strip()
