"""Sessions of this process with Google Cloud Storage, and the cause and message of an error.

Google's libraries have credentials and their renewal. Requests use their HTTP session instead of the `Blob` objects of
`google-cloud-storage`, which take half the time of a listing, keep only the first error of a batch, and hide the
generation of an answer.

Source: Cloud Storage documentation, "HTTP status and error codes for JSON" and "Retry strategy".
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dredge import causes
from dredge.causes import Cause
from dredge.errors import ConfigError, DredgeError
from dredge.storage.https import mount, redact
from dredge.storage.options import GcsOptions
from dredge.storage.remote import ProcessCache

PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses worth a retry."""
THROTTLED = frozenset({429, 503})
NO_CONNECTION = 0
"""Status of a request without an answer."""
_CHECKSUM = re.compile(rb"(?i)(content-md5|checksum)[^.]*required|requires?[^.]*(content-md5|checksum)")
_HINTS = {
    causes.DENIED: "Check the roles of the credentials (storage.objects.list, get, create and delete, such as in"
    " roles/storage.objectUser).",
    causes.NO_CONTAINER: "The bucket does not exist at this endpoint; check the URI and the endpoint.",
}


def reason(status: int, body: bytes) -> tuple[str, str]:
    """Code and message in the body of an error (JSON, XML or nothing)."""
    try:
        found: Any = json.loads(body)["error"]
        errors = found.get("errors") or [{}]
        return str(errors[0].get("reason") or status), redact(str(found.get("message") or ""))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return str(status), ""


def by_status(status: int, body: bytes, doing: str) -> DredgeError:
    """The error for an answer."""
    code, message = reason(status, body)
    cause = _cause(status, body)
    words = redact(f"{doing}: {status} {code} {message}".rstrip())
    if status == 400 and b"requester pays" in body:
        return cause.error(words, "Set DREDGE_GCS_USER_PROJECT to the project that pays.")
    return cause.error(words, _HINTS.get(cause, ""))


def _cause(status: int, body: bytes) -> Cause:
    if status == NO_CONNECTION:
        return causes.NO_ANSWER
    if status == 404 and (is_about_bucket(body) or b"<Code>NoSuchBucket" in body):
        return causes.NO_CONTAINER
    if status in {404, 410}:
        return causes.MISSING
    if status in {409, 412}:
        return causes.CONFLICT
    if status in {405, 501}:
        return causes.NOT_IMPLEMENTED
    if status in PASSING or status >= 500:
        return causes.BUSY
    if status == 400 and _CHECKSUM.search(body):
        return causes.CHECKSUM
    if status == 401 or b"<Code>SignatureDoesNotMatch" in body:
        return causes.EXPIRED if b"xpired" in body else causes.CREDENTIALS
    return causes.DENIED if status == 403 else causes.REJECTED


def is_about_bucket(body: bytes) -> bool:
    """Whether a 404 means a missing bucket."""
    return b"bucket does not exist" in body


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise Dredge's errors for those of the libraries; unchained, as theirs may contain request details."""
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (GoogleAuthError, RequestException, HTTPError) as error:
        raise _cause_without_answer(error).error(redact(f"{doing}: {type(error).__name__}")) from None


def _cause_without_answer(error: Exception) -> Cause:
    from google.auth.exceptions import GoogleAuthError, TransportError
    from requests.exceptions import ConnectionError, InvalidURL
    from urllib3.exceptions import ProtocolError

    if causes.is_certificate(error):
        return causes.CERTIFICATE
    if isinstance(error, InvalidURL):
        return causes.UNUSABLE
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
        return causes.BUSY if error.retryable else causes.CREDENTIALS
    lost = isinstance(error.args[0] if error.args else None, ProtocolError)
    found = isinstance(error, TransportError | ConnectionError) and not lost
    return causes.UNREACHABLE if found else causes.NO_ANSWER


POOL_CONNECTIONS = 64
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
INSTALL = "Google Cloud Storage needs the extra gcs: pip install 'dredge[gcs]'"


_cache = ProcessCache()


def session(options: GcsOptions) -> Any:
    """The authorised HTTP session. It also loads Google's libraries, so it comes before any other use of them."""
    return _cache.get(("http", options), lambda: _build(options))


def credentials(options: GcsOptions) -> Any:
    """The credentials; raises like `session`."""
    return _cache.get(("credentials", options), lambda: _credentials(options))


def _build(options: GcsOptions) -> Any:
    allowed = credentials(options)
    from google.auth.transport.requests import AuthorizedSession

    # Without credentials there is nothing to renew, and the answer names the missing right.
    renewed = () if options.is_anonymous else (401,)
    built: Any = AuthorizedSession(allowed, refresh_status_codes=renewed)  # type: ignore[no-untyped-call]
    mount(built, POOL_CONNECTIONS)
    if options.user_project:
        built.headers["X-Goog-User-Project"] = options.user_project
    return built


def _credentials(options: GcsOptions) -> Any:
    try:
        from google.auth.exceptions import GoogleAuthError
    except ImportError:
        raise ConfigError(INSTALL) from None
    try:
        return _load(options)
    except FileNotFoundError:
        raise ConfigError(f"there is no key file {options.credentials_file}") from None
    except (GoogleAuthError, OSError, ValueError) as error:
        # Their words may quote the key.
        raise ConfigError(
            f"no credentials for Google Cloud Storage ({type(error).__name__}): give a connection of type"
            " google_cloud_platform, GOOGLE_APPLICATION_CREDENTIALS, or an identity of the machine"
        ) from None


def _load(options: GcsOptions) -> Any:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.oauth2 import service_account

    if options.is_anonymous:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    text = options.credentials_json
    if text is None and options.credentials_file is not None:
        with open(options.credentials_file, encoding="utf-8") as file:
            text = file.read()
    if text is None:
        return google.auth.default(scopes=_SCOPES)[0]
    info = json.loads(text)
    if info.get("type") == "service_account":
        return service_account.Credentials.from_service_account_info(info, scopes=_SCOPES)  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about files from untrusted sources
        return google.auth.load_credentials_from_dict(info, scopes=_SCOPES)[0]  # type: ignore[no-untyped-call]
