"""AWS Signature Version 4's predecessor, which old clients send and boto3 pre-signs with unless told otherwise.

    string to sign   method \n Content-MD5 \n Content-Type \n Date (or Expires) \n x-amz-…:value \n… path?subresources
    header           Authorization: AWS <key id>:<base64 of HMAC-SHA1>
    query            ?AWSAccessKeyId=…&Signature=…&Expires=<Unix seconds>

Neither the body nor most of the query is signed. lakeFS takes such requests, AWS no longer does for new buckets, so
this is for profile `lakefs` only.

Source: AWS "Signing and authenticating REST requests (signature version 2)"; lakeFS pkg/gateway/sig/v2.go (behaviour).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from dredge.gateway.errors import S3Error
from dredge.gateway.sigv4 import SKEW_MAX, TIME_FORMAT, UNSIGNED, RawRequest

_HEADER = re.compile(r"AWS ([^:\s]+):([A-Za-z0-9+/=]+)")
_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_SIGNED_HEADERS = ("content-md5", "content-type", "date")
# Parameters of the query that choose the operation or set a header of the response: part of the signed path.
_SUBRESOURCES = frozenset(
    {
        "accelerate",
        "acl",
        "analytics",
        "cors",
        "defaultObjectAcl",
        "delete",
        "inventory",
        "lifecycle",
        "location",
        "logging",
        "metrics",
        "notification",
        "partNumber",
        "policy",
        "replication",
        "requestPayment",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
        "restore",
        "select",
        "select-type",
        "storageClass",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
        "website",
    }
)


@dataclass(frozen=True, slots=True)
class V2Claim:
    """A signature of version 2, as sent and not yet verified.

    Attributes:
        access_key_id: key that signed.
        signature: HMAC-SHA1.
        payload: how the body is encoded; this signature never covers it.
        expires: end of a pre-signed URL in Unix seconds, as sent; None for a signature in the header.
    """

    access_key_id: str
    signature: bytes
    payload: str
    expires: str | None = None


def read_v2_claim(request: RawRequest) -> V2Claim | None:
    """Parse a signature of version 2.

    Returns:
        The signature; None if the request has none of this version.

    Raises:
        S3Error: malformed.
    """
    header = request.text("authorization")
    if header.startswith("AWS "):
        match = _HEADER.fullmatch(header)
        if match is None:
            raise S3Error("AccessDenied")
        return V2Claim(match[1], _decoded(match[2]), _payload(request))
    query = _query(request)
    if header or "AWSAccessKeyId" not in query:
        return None
    if not query.get("Signature") or not query.get("Expires"):
        raise S3Error("AccessDenied", "Query-string authentication requires Signature and Expires")
    return V2Claim(query["AWSAccessKeyId"], _decoded(query["Signature"]), _payload(request), query["Expires"])


def verify_v2(request: RawRequest, claim: V2Claim, secret: str, now: datetime) -> None:
    """Verify a signature of version 2.

    Args:
        request: the request.
        claim: its signature.
        secret: secret of the key it names.
        now: current time, aware UTC.

    Raises:
        S3Error: the signature is wrong, expired, or not made about now.
    """
    texts = [string_to_sign(request, claim)]
    if request.path.count(b"/") == 1:
        # A bucket's path: boto3 sends it without a slash at the end and signs it with one.
        texts.append(string_to_sign(replace(request, path=request.path + b"/"), claim))
    wanted = (hmac.digest(secret.encode(), text, "sha1") for text in texts)
    if not any(hmac.compare_digest(each, claim.signature) for each in wanted):
        raise S3Error("SignatureDoesNotMatch")
    if claim.expires is None:
        signed_at = _signing_time(request.text("x-amz-date") or request.text("date"))
        if signed_at - now > SKEW_MAX:
            raise S3Error("AccessDenied", "Request is not valid yet")
        if now - signed_at > SKEW_MAX:
            raise S3Error("RequestTimeTooSkewed")
    elif not claim.expires.isdecimal() or now > datetime.fromtimestamp(0, UTC) + timedelta(
        seconds=min(int(claim.expires), 2**40)
    ):
        raise S3Error("AccessDenied", "Request has expired")


def string_to_sign(request: RawRequest, claim: V2Claim) -> bytes:
    """Build the text that is signed."""
    lines = [request.method]
    for name in _SIGNED_HEADERS:
        value = request.text(name)
        if name == "date":
            value = claim.expires or ("" if request.text("x-amz-date") else value)
        lines.append(value)
    amazon = sorted({name.decode("latin-1") for name, _ in request.headers if name.startswith(b"x-amz-")})
    lines += [f"{name}:{_joined(request, name)}" for name in amazon]
    pairs = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in request.pairs()
        if name.decode("latin-1") in _SUBRESOURCES
    ]
    chosen = "&".join(f"{name}={value}" if value else name for name, value in sorted(pairs))
    text = "\n".join(lines) + "\n"
    return text.encode("latin-1") + request.path + (f"?{chosen}".encode("latin-1") if chosen else b"")


def _joined(request: RawRequest, name: str) -> str:
    return ",".join(value.decode("latin-1").strip() for value in request.values(name))


def _query(request: RawRequest) -> Mapping[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in request.pairs()}


def _payload(request: RawRequest) -> str:
    given = request.text("x-amz-content-sha256")
    return given if given == _TRAILER or re.fullmatch("[0-9a-f]{64}", given) else UNSIGNED


def _decoded(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise S3Error("SignatureDoesNotMatch") from None


def _signing_time(text: str) -> datetime:
    if not text:
        raise S3Error("MissingFields")
    try:
        return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        raise S3Error("AccessDenied", "The date of the request is malformed") from None
