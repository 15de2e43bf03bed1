"""What an answer of Google Cloud Storage means for the caller: which family of ours, and in what words.

Source: Cloud Storage documentation, "HTTP status and error codes for JSON" and "Retry strategy".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.storage.redact import redact

PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses of answers that may be different next time."""
THROTTLED = frozenset({429, 503})
NO_CONNECTION = 0
"""Stands for a status where no answer came."""


def reason(status: int, body: bytes) -> tuple[str, str]:
    """The code and the words of an error's body.

    Args:
        status: of the answer.
        body: JSON, XML or nothing.
    """
    try:
        found: Any = json.loads(body)["error"]
        errors = found.get("errors") or [{}]
        return str(errors[0].get("reason") or status), redact(str(found.get("message") or ""))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return str(status), ""


def by_status(status: int, body: bytes, doing: str) -> DredgeError:
    """Choose the family for an answer that is an error."""
    code, message = reason(status, body)
    words = redact(f"{doing}: {status} {message or code}".rstrip())
    if status == 404 and (is_about_bucket(body) or b"<Code>NoSuchBucket" in body):
        return ConfigError(
            f"{words}. The bucket does not exist at this endpoint; check the URI and the endpoint."
        )
    if status in {404, 410}:
        return NotFoundError(words)
    if status in {409, 412}:
        return ConflictError(words)
    if status in PASSING or status == NO_CONNECTION or status >= 500:
        return UnavailableError(words)
    if status == 400 and b"requester pays" in body:
        return ConfigError(f"{words}. Set DREDGE_GCS_USER_PROJECT to the project that pays.")
    if status in {401, 403}:
        return ConfigError(
            f"{words}. AccessDenied: check the credentials and their roles (storage.objects.list, get, create and"
            " delete, such as in roles/storage.objectUser)."
        )
    return ConfigError(words)


def is_about_bucket(body: bytes) -> bool:
    """Whether a 404 says that the bucket is what is not there."""
    return b"bucket does not exist" in body


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our families instead of the libraries' errors, unchained: theirs may show request details."""
    from google.auth.exceptions import GoogleAuthError, TransportError
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (TransportError, RequestException, HTTPError) as error:
        raise UnavailableError(redact(f"{doing}: {type(error).__name__}")) from None
    except GoogleAuthError as error:
        family = UnavailableError if getattr(error, "retryable", False) else ConfigError
        raise family(f"{doing}: the credentials are not accepted ({type(error).__name__})") from None
