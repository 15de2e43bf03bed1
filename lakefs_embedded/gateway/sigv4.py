"""AWS Signature Version 4 on the server side: parsing and verifying the signature of a request.

    string to sign      AWS4-HMAC-SHA256 \\n 20130524T000000Z \\n 20130524/us-east-1/s3/aws4_request \\n
                        hex(sha256(canonical request))
    canonical request   method \\n path \\n query \\n header:value… \\n signed names \\n hash of the body

A signature is in the Authorization header or, pre-signed, in the query. All inputs are the raw bytes of the request:
the path is decoded once and encoded again by AWS's rules, so clients may encode it in any way. Like AWS and stricter
than lakeFS: `host` and every `x-amz-*` header must be signed; the hash of the body is required; a pre-signed URL is
valid for the time it states, not for 15 minutes.

Source: AWS "Authenticating Requests: Using the Authorization Header" and "… Using Query Parameters".
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lakefs_embedded.gateway.errors import S3Error

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
SKEW_MAX = timedelta(minutes=15)
EXPIRES_MAX = 7 * 24 * 3600  # seconds
TIME_FORMAT = "%Y%m%dT%H%M%SZ"
_CREDENTIAL = r"([^/,\s]+)/(\d{8})/([\w-]+)/([\w-]+)/aws4_request"
_HEADER = re.compile(
    rf"{ALGORITHM}\s+Credential={_CREDENTIAL}\s*,\s*SignedHeaders=([^,\s]+)\s*,\s*Signature=([0-9a-f]{{64}})"
)
_SCOPE = re.compile(_CREDENTIAL)
_PAYLOAD = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-[A-Z0-9-]+")
# Query parameters that only a pre-signed URL has.
_PRESIGNED = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature")

type Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class RawRequest:
    """The signed parts of a request, as received; header names in order and in lower case."""

    method: str
    path: bytes
    query: bytes
    headers: Headers

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Return the decoded query parameters in order; one without `=` has an empty value."""
        found = []
        for field in self.query.split(b"&"):
            if field:
                name, _, value = field.replace(b"+", b" ").partition(b"=")
                found.append((unquote_to_bytes(name), unquote_to_bytes(value)))
        return found

    def values(self, name: str) -> list[bytes]:
        """Return all values of a header."""
        wanted = name.encode()
        return [value for key, value in self.headers if key == wanted]

    def text(self, name: str) -> str:
        """Return a header's value; several are joined by commas, a missing one is ""."""
        return b",".join(self.values(name)).decode("latin-1").strip()


@dataclass(frozen=True, slots=True)
class Claim:
    """The signature of a request and its parameters, as sent and not yet verified.

    Attributes:
        day, region, service: credential scope; `day` is YYYYMMDD.
        signed_headers: header names, spelled and ordered as sent.
        signature: 64 hex digits.
        payload: SHA-256 of the body in hex, or one of AWS's constants in its place.
        expires: lifetime of a pre-signed URL in seconds; None for a signature in the header.
    """

    access_key_id: str
    day: str
    region: str
    service: str
    signed_at: datetime
    signed_headers: tuple[str, ...]
    signature: str
    payload: str
    expires: int | None = None

    @property
    def scope(self) -> str:
        """The scope as it appears in the string to sign."""
        return f"{self.day}/{self.region}/{self.service}/aws4_request"

    @property
    def timestamp(self) -> str:
        """The time of signing as it appears in the string to sign."""
        return self.signed_at.strftime(TIME_FORMAT)

    def signing_key(self, secret: str) -> bytes:
        """Derive the signing key of this scope from the secret access key."""
        key = f"AWS4{secret}".encode()
        for part in (self.day, self.region, self.service, "aws4_request"):
            key = sign(key, part)
        return key


def sign(key: bytes, text: str) -> bytes:
    """Return the HMAC-SHA256 of a text."""
    return hmac.digest(key, text.encode(), "sha256")


def is_signed(headers: Headers, query: bytes) -> bool:
    """Whether a request has an AWS signature, version 4 or 2, so it is meant for the S3 gateway.

    Source: lakeFS pkg/gateway/sig/sig.go (IsAWSSignedRequest).
    """
    for name, value in headers:
        if name == b"authorization":
            if value.startswith((b"AWS4", b"AWS ")):
                return True
        elif name == b"x-amz-signature":
            return True
    return b"X-Amz-Credential=" in query or b"AWSAccessKeyId=" in query


def read_claim(request: RawRequest) -> Claim:
    """Parse the signature of a request. Raises S3Error: none, two, or a malformed one."""
    header = request.text("authorization")
    query = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.pairs()}
    if header and "X-Amz-Signature" in query:
        raise S3Error("InvalidArgument", "Only one auth mechanism allowed: header or query.")
    return _from_header(request, header) if header else _from_query(request, query)


def verify(request: RawRequest, claim: Claim, secret: str, now: datetime) -> None:
    """Verify a request's signature with the key's secret; it must be right, current, and cover the required headers."""
    _require_signed(request, claim)
    wanted = sign(claim.signing_key(secret), string_to_sign(request, claim)).hex()
    if not hmac.compare_digest(wanted, claim.signature):
        raise S3Error("SignatureDoesNotMatch")
    if claim.signed_at - now > SKEW_MAX:
        raise S3Error("RequestTimeTooSkewed")
    if claim.expires is None:
        if now - claim.signed_at > SKEW_MAX:
            raise S3Error("RequestTimeTooSkewed")
    elif now > claim.signed_at + timedelta(seconds=claim.expires):
        raise S3Error("AccessDenied", "Request has expired")


def string_to_sign(request: RawRequest, claim: Claim) -> str:
    """Build the text to sign."""
    digest = hashlib.sha256(canonical_request(request, claim)).hexdigest()
    return f"{ALGORITHM}\n{claim.timestamp}\n{claim.scope}\n{digest}"


def canonical_request(request: RawRequest, claim: Claim) -> bytes:
    """Build the canonical request, the same for client and server."""
    path = quote_from_bytes(unquote_to_bytes(request.path), safe="/-_.~") or "/"
    pairs = sorted(
        (quote_from_bytes(name, safe="-_.~"), quote_from_bytes(value, safe="-_.~"))
        for name, value in request.pairs()
        if claim.expires is None or name != b"X-Amz-Signature"
    )
    lines = [request.method, path, "&".join(f"{name}={value}" for name, value in pairs)]
    return b"\n".join(
        [
            *(line.encode() for line in lines),
            *(_canonical_header(request, name) for name in claim.signed_headers),
            b"",
            ";".join(claim.signed_headers).encode(),
            claim.payload.encode(),
        ]
    )


def _canonical_header(request: RawRequest, name: str) -> bytes:
    values = request.values(name)
    if not values:
        raise S3Error(
            "SignatureDoesNotMatch", f"The header {name} is in the list of signed headers but missing."
        )
    return name.encode() + b":" + b",".join(b" ".join(value.split()) for value in values)


def _require_signed(request: RawRequest, claim: Claim) -> None:
    signed = {name.encode() for name in claim.signed_headers}
    unsigned = {
        name.decode("latin-1")
        for name, _ in request.headers
        if (name.startswith(b"x-amz-") or name == b"host") and name not in signed
    }
    if unsigned:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed: " + ", ".join(sorted(unsigned)),
        )


def _from_header(request: RawRequest, header: str) -> Claim:
    if not header.startswith(ALGORITHM):
        raise S3Error(
            "InvalidRequest", f"The authorization mechanism is not supported. Please use {ALGORITHM}."
        )
    match = _HEADER.fullmatch(header)
    if match is None:
        raise S3Error("AuthorizationHeaderMalformed")
    key_id, day, region, service, names, signature = match.groups()
    stamp = request.text("x-amz-date")
    if not stamp:
        raise S3Error("AccessDenied", "AWS authentication requires a valid x-amz-date header")
    payload = request.text("x-amz-content-sha256")
    if not payload:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    code = "AuthorizationHeaderMalformed"
    return Claim(
        access_key_id=key_id,
        day=day,
        region=region,
        service=_service(service, code),
        signed_at=_signing_time(stamp, day, code),
        signed_headers=tuple(names.split(";")),
        signature=signature,
        payload=_payload(payload),
    )


def _from_query(request: RawRequest, query: Mapping[str, str]) -> Claim:
    code = "AuthorizationQueryParametersError"
    if query.get("X-Amz-Algorithm") != ALGORITHM:
        if "AWSAccessKeyId" in query:
            raise S3Error(
                "InvalidRequest",
                f"Signature version 2 is not supported. Please use {ALGORITHM} "
                "(boto3: Config(signature_version='s3v4')).",
            )
        raise S3Error(code, f"X-Amz-Algorithm only supports {ALGORITHM}")
    missing = [name for name in _PRESIGNED if not query.get(name)]
    if missing:
        raise S3Error(code, f"Query-string authentication requires the parameters {', '.join(missing)}")
    scope = _SCOPE.fullmatch(query["X-Amz-Credential"])
    if scope is None:
        raise S3Error(code, "The Credential is malformed; expecting KEY/YYYYMMDD/REGION/s3/aws4_request")
    key_id, day, region, service = scope.groups()
    expires = query["X-Amz-Expires"]
    if not (expires.isascii() and expires.isdecimal() and int(expires) <= EXPIRES_MAX):
        raise S3Error(code, f"X-Amz-Expires must be a number of seconds, at most {EXPIRES_MAX}")
    return Claim(
        access_key_id=key_id,
        day=day,
        region=region,
        service=_service(service, code),
        signed_at=_signing_time(query["X-Amz-Date"], day, code),
        signed_headers=tuple(query["X-Amz-SignedHeaders"].split(";")),
        signature=query["X-Amz-Signature"],
        payload=_payload(request.text("x-amz-content-sha256") or UNSIGNED),
        expires=int(expires),
    )


def _service(service: str, code: str) -> str:
    if service != "s3":
        raise S3Error(code, f"The service {service!r} of the credential is not s3")
    return service


def _signing_time(stamp: str, day: str, code: str) -> datetime:
    try:
        signed_at = datetime.strptime(stamp, TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise S3Error(code, f"The date {stamp!r} is not of the form YYYYMMDDTHHMMSSZ") from None
    if not stamp.startswith(day + "T"):
        raise S3Error(code, "The day of the credential is not the day of the request")
    return signed_at


def _payload(text: str) -> str:
    if not _PAYLOAD.fullmatch(text):
        raise S3Error(
            "InvalidArgument", "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-… or a SHA-256"
        )
    return text
