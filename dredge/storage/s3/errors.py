"""What an S3 answer means for the caller: which cause, and in what words. Both clients' errors end here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape

from dredge import causes
from dredge.causes import THROTTLED, TRANSIENT, Cause, cause_of_code, cause_of_provider, cause_without_answer
from dredge.errors import DredgeError
from dredge.storage.redact import redact

__all__ = [
    "THROTTLED",
    "TRANSIENT",
    "UNKNOWN_REQUEST",
    "by_code",
    "translate",
    "translated",
    "translated_native",
]

UNKNOWN_REQUEST = frozenset({"NotImplemented", "MethodNotAllowed", "501", "405"})
"""Codes of stores that know only some of S3's requests."""
_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchUpload", "NoSuchVersion"})
_CONFLICT = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_MISSING_CHECKSUM = re.compile(r"(?i)content-md5|checksum")
_HINTS = {
    causes.DENIED: "Check the policies of the user or role (s3:ListBucket, s3:GetObject, s3:PutObject,"
    " s3:DeleteObject) and of the bucket.",
    causes.NO_CONTAINER: "The bucket does not exist at this endpoint; check the URI and the endpoint.",
}
_STATUS = re.compile(r"\bstatus: (\d{3}),")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_CONNECTING = re.compile(r"\bError\(\s*Connect,")
_REASON = re.compile(r'\b(?:message|error): "([^"]+)"')


def by_code(code: str, status: int, words: str) -> DredgeError:
    """Choose the family for an error code and HTTP status."""
    cause = _cause(code, status, words)
    return cause.error(words, _HINTS.get(cause, ""))


def _cause(code: str, status: int, words: str) -> Cause:
    if code == "NoSuchBucket":
        return causes.NO_CONTAINER
    if code in UNKNOWN_REQUEST or status == 501:
        return causes.NOT_IMPLEMENTED
    if code in _CONFLICT or status == 412:
        return causes.CONFLICT
    if code in _MISSING or status == 404:
        return causes.MISSING
    if code in {"InvalidRequest", "MissingContentMD5"} and _MISSING_CHECKSUM.search(words):
        return causes.CHECKSUM
    return cause_of_code(code, status) or causes.REJECTED


def translate(error: Exception, doing: str) -> DredgeError:
    """Translate an error of botocore."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return cause_without_answer(error).error(redact(f"{doing}: {error}"))
    found = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = found.get("Code", "")
    return by_code(code, status, redact(f"{doing}: {code} {found.get('Message', '')}".rstrip()))


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our families instead of the libraries' errors, unchained: theirs may show request details."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (BotoCoreError, ClientError, HTTPError) as error:
        raise translate(error, doing) from None


@contextmanager
def translated_native(doing: str) -> Iterator[None]:
    """Raise our families instead of obstore's errors, unchained; botocore's come from the search for credentials."""
    from obstore.exceptions import BaseError

    with translated(doing):
        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise _of_native(error, doing) from None


def _of_native(error: Exception, doing: str) -> DredgeError:
    """Translate an error of obstore, which has the answer's status, code and message in its text only."""
    from obstore import exceptions

    text = str(error)
    status = _STATUS.search(text)
    if status is not None:
        found, told = _CODE.search(text), _MESSAGE.search(text)
        code = unescape(found[1]) if found else status[1]
        return by_code(
            code, int(status[1]), redact(f"{doing}: {code} {unescape(told[1]) if told else ''}".rstrip())
        )
    if "credential provider" in text:
        cause, words = cause_of_provider(text)
        return cause.error(redact(f"{doing}: {words}"))
    reason = _REASON.search(text)
    words = redact(f"{doing}: {reason[1] if reason else error}")
    if causes.is_certificate(text):
        return causes.CERTIFICATE.error(redact(f"{doing}: the certificate is not accepted"))
    if "BareRedirect" in text:
        return causes.REGION.error(words)
    if "kind: Connect" in text or _CONNECTING.search(text):
        return causes.UNREACHABLE.error(words)
    known = ValueError | exceptions.InvalidPathError | exceptions.UnknownConfigurationKeyError
    if isinstance(error, exceptions.UnauthenticatedError):
        return causes.CREDENTIALS.error(words)
    return (causes.UNUSABLE if isinstance(error, known) else causes.NO_ANSWER).error(words)
