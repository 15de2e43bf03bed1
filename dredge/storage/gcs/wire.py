"""Requests to the JSON and XML APIs of Google Cloud Storage, with retries; batches of requests; names of objects.

A retried request must be harmless twice: a read, a write of the same bytes, or a request with a condition on a
generation (the second one fails on the condition).

Google's libraries read credentials, and renew them. Requests use their HTTP session instead of the `Blob` objects of
`google-cloud-storage`, which take half the time of a listing, keep only the first error of a batch, and hide the
generation of an answer.

Source: Cloud Storage documentation, "HTTP status and error codes for JSON" and "Retry strategy"; "About Cloud Storage
objects" (names), "Batch requests" (multipart/mixed, at most 100 parts, answered by Content-ID).
"""

import json
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.parser import BytesParser
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from dredge import causes
from dredge.causes import Cause
from dredge.errors import ConfigError, DredgeError, UnavailableError
from dredge.storage.https import CONNECT_SECONDS, READ_SECONDS, mount, redact
from dredge.storage.keys import is_text
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
        # The library's message may quote the key.
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


class Answer(Struct, frozen=True):
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


class Part(Struct, frozen=True):
    """One request of a batch: method, whole name of the object, parameters."""

    method: str
    name: str
    query: Query = ()


class PartAnswer(Struct, frozen=True):
    """The answer to one part."""

    status: int
    body: bytes


def send_batch(
    options: GcsOptions, bucket: str, parts: Sequence[Part], doing: str
) -> list[PartAnswer | None]:
    """Make many requests by one, at most BATCH_PARTS. Returns the answers in the order of the parts; None for a part
    without a clear answer. Raises DredgeError: the whole request failed; the outcome of its parts is unknown."""
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
    # Parts without a number, or with the number of another part, are ignored.
    if not content_type.startswith("multipart/"):
        raise UnavailableError(f"{doing}: the answer to a batch request is not multipart")
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
