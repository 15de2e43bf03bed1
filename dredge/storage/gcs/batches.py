"""Many small requests in one: multipart/mixed, each part with an answer of its own.

Source: Cloud Storage documentation, "Batch requests": at most 100 parts, each answered by the Content-ID that it came
with.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from urllib.parse import urlencode, urlsplit

from dredge.errors import UnavailableError
from dredge.storage.gcs.errors import THROTTLED, by_status
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.gcs.wire import object_url, payer, send

BATCH_PARTS = 100
_ID = re.compile(r"response-.*\+(\d+)>?$")
_STATUS = re.compile(rb"^HTTP/\d(?:\.\d)? (\d{3})\b")


@dataclass(frozen=True, slots=True)
class Part:
    """One request of a batch.

    Attributes:
        method: DELETE or GET.
        name: whole name of the object.
        query: parameters.
    """

    method: str
    name: str
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """The answer to one part."""

    status: int
    body: bytes


def send_batch(
    options: GcsOptions, bucket: str, parts: Sequence[Part], doing: str
) -> list[PartAnswer | None]:
    """Make one request of many.

    Args:
        options: how to reach the service.
        bucket: of all the objects.
        parts: at most BATCH_PARTS.
        doing: for messages.

    Returns:
        The answer to each part, in their order; None where none can be told to be its answer.

    Raises:
        DredgeError: the request as a whole failed; what became of its parts is unknown.
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
    """Read the parts; those that carry no number, or one that another part has too, answer nothing."""
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
