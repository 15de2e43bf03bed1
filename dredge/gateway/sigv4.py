"""AWS Signature Version 4, the server's side: what a request claims, and whether its signature is right.

    string to sign      AWS4-HMAC-SHA256 \\n 20130524T000000Z \\n 20130524/us-east-1/s3/aws4_request \\n
                        hex(sha256(canonical request))
    canonical request   method \\n path \\n query \\n header:value… \\n signed names \\n hash of the body

A signature may be in the Authorization header or, pre-signed, in the query. Everything is taken from the raw
bytes of the request: the path is decoded once and encoded again in AWS's own way, so a client may spell it
as it likes. Stricter than lakeFS, as AWS is: every `x-amz-*` header that is sent must be signed, so must
`host`; the hash of the body must be given; a pre-signed URL lives as long as it says, not 15 minutes.

Source: AWS "Authenticating Requests: Using the Authorization Header" and "… Using Query Parameters".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote_from_bytes, unquote_to_bytes

from dredge.gateway.failures import S3Error

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
SKEW_MAX = timedelta(minutes=15)
EXPIRES_MAX = 7 * 24 * 3600
_TIME = "%Y%m%dT%H%M%SZ"
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
    """The parts of a request that are signed, as they came over the wire.

    Attributes:
        method: of HTTP.
        path: before the question mark, encoded.
        query: behind it, encoded.
        headers: in order; names in lower case.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Query parameters, decoded, in order; those without `=` have an empty value."""
        found = []
        for field in self.query.split(b"&"):
            if field:
                name, _, value = field.replace(b"+", b" ").partition(b"=")
                found.append((unquote_to_bytes(name), unquote_to_bytes(value)))
        return found

    def values(self, name: str) -> list[bytes]:
        """All values of a header."""
        wanted = name.encode()
        return [value for key, value in self.headers if key == wanted]

    def text(self, name: str) -> str:
        """A header's value; several are joined by a comma; "" when it is not there."""
        return b",".join(self.values(name)).decode("latin-1").strip()


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request says of its signature.

    Attributes:
        access_key_id: whose key.
        day, region, service: the scope.
        moment: when it was signed, aware UTC.
        signed_headers: names, as spelled and in the order given.
        signature: 64 hex digits.
        payload: hash of the body, or one of AWS's words in its place.
        expires: life of a pre-signed URL in seconds; None for a signature in the header.
    """

    access_key_id: str
    day: str
    region: str
    service: str
    moment: datetime
    signed_headers: tuple[str, ...]
    signature: str
    payload: str
    expires: int | None = None

    @property
    def scope(self) -> str:
        """The scope as strings to sign have it."""
        return f"{self.day}/{self.region}/{self.service}/aws4_request"

    @property
    def stamp(self) -> str:
        """The moment as strings to sign have it."""
        return self.moment.strftime(_TIME)

    def signing_key(self, secret: str) -> bytes:
        """Derive the key of this scope from the secret."""
        key = f"AWS4{secret}".encode()
        for part in (self.day, self.region, self.service, "aws4_request"):
            key = sign(key, part)
        return key


def sign(key: bytes, text: str) -> bytes:
    """HMAC-SHA256."""
    return hmac.digest(key, text.encode(), "sha256")


def is_signed(headers: Headers, query: bytes) -> bool:
    """Whether a request is meant for an S3 server: signed in AWS's way, also in the old one.

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
    """Find the signature of a request.

    Raises:
        S3Error: there is none, two, or one that cannot be read.
    """
    header = request.text("authorization")
    query = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.pairs()}
    if header and "X-Amz-Signature" in query:
        raise S3Error("InvalidArgument", "Only one auth mechanism allowed: header or query.")
    return _from_header(request, header) if header else _from_query(request, query)


def verify(request: RawRequest, claim: Claim, secret: str, now: datetime) -> None:
    """See whether a request was signed with a secret, lately.

    Args:
        request: as it came.
        claim: of that request.
        secret: of the claimed key.
        now: aware UTC.

    Raises:
        S3Error: something unsigned that must be signed, another signature, too old, or of the future.
    """
    _require_signed(request, claim)
    wanted = sign(claim.signing_key(secret), string_to_sign(request, claim)).hex()
    if not hmac.compare_digest(wanted, claim.signature):
        raise S3Error("SignatureDoesNotMatch")
    if claim.moment - now > SKEW_MAX:
        raise S3Error("RequestTimeTooSkewed")
    if claim.expires is None:
        if now - claim.moment > SKEW_MAX:
            raise S3Error("RequestTimeTooSkewed")
    elif now > claim.moment + timedelta(seconds=claim.expires):
        raise S3Error("AccessDenied", "Request has expired")


def string_to_sign(request: RawRequest, claim: Claim) -> str:
    """The text that the signature is over."""
    digest = hashlib.sha256(canonical_request(request, claim)).hexdigest()
    return f"{ALGORITHM}\n{claim.stamp}\n{claim.scope}\n{digest}"


def canonical_request(request: RawRequest, claim: Claim) -> bytes:
    """The request in the one spelling that both sides agree on."""
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
        raise S3Error("SignatureDoesNotMatch", f"The header {name} was signed and is not there.")
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
        moment=_moment(stamp, day, code),
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
        moment=_moment(query["X-Amz-Date"], day, code),
        signed_headers=tuple(query["X-Amz-SignedHeaders"].split(";")),
        signature=query["X-Amz-Signature"],
        payload=_payload(request.text("x-amz-content-sha256") or UNSIGNED),
        expires=int(expires),
    )


def _service(service: str, code: str) -> str:
    if service != "s3":
        raise S3Error(code, f"The service {service!r} of the credential is not s3")
    return service


def _moment(stamp: str, day: str, code: str) -> datetime:
    try:
        moment = datetime.strptime(stamp, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise S3Error(code, f"The date {stamp!r} is not of the form YYYYMMDDTHHMMSSZ") from None
    if not stamp.startswith(day + "T"):
        raise S3Error(code, "The day of the credential is not the day of the request")
    return moment


def _payload(text: str) -> str:
    if not _PAYLOAD.fullmatch(text):
        raise S3Error(
            "InvalidArgument", "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-… or a SHA-256"
        )
    return text
