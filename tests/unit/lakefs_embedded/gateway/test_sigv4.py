"""AWS's published examples hold, and every signed part of a request is really signed."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.sigv4 import RawRequest, is_signed, read_claim, verify

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EMPTY = hashlib.sha256(b"").hexdigest()
NOW = datetime(2013, 5, 24, tzinfo=UTC)
CREDENTIAL = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
HOST = (b"host", b"examplebucket.s3.amazonaws.com")


def signed(
    method: str, url: bytes, names: str, signature: str, *headers: tuple[bytes, bytes], payload: str = EMPTY
) -> RawRequest:
    path, _, query = url.partition(b"?")
    authorization = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL},SignedHeaders={names},Signature={signature}"
    return RawRequest(
        method,
        path,
        query,
        [
            HOST,
            (b"x-amz-date", b"20130524T000000Z"),
            (b"x-amz-content-sha256", payload.encode()),
            (b"authorization", authorization.encode()),
            *headers,
        ],
    )


# Source: AWS S3 API reference, "Authenticating Requests: Using the Authorization Header", examples.
GET_OBJECT = signed(
    "GET",
    b"/test.txt",
    "host;range;x-amz-content-sha256;x-amz-date",
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    (b"range", b"bytes=0-9"),
)
PUT_OBJECT = signed(
    "PUT",
    b"/test$file.text",
    "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    (b"date", b"Fri, 24 May 2013 00:00:00 GMT"),
    (b"x-amz-storage-class", b"REDUCED_REDUNDANCY"),
    payload=hashlib.sha256(b"Welcome to Amazon S3.").hexdigest(),
)
LIFECYCLE = signed(
    "GET",
    b"/?lifecycle",
    "host;x-amz-content-sha256;x-amz-date",
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
)
LIST = signed(
    "GET",
    b"/?max-keys=2&prefix=J",
    "host;x-amz-content-sha256;x-amz-date",
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
)
PRESIGNED = RawRequest(
    "GET",
    b"/test.txt",
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F"
    b"aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
    b"aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    [HOST],
)
PUBLISHED = [GET_OBJECT, PUT_OBJECT, LIFECYCLE, LIST, PRESIGNED]


def check(request: RawRequest, now: datetime = NOW, secret: str = SECRET) -> None:
    verify(request, read_claim(request), secret, now)


def refusal(request: RawRequest, now: datetime = NOW, secret: str = SECRET) -> str:
    with pytest.raises(S3Error) as refused:
        check(request, now, secret)
    return refused.value.code


def with_header(request: RawRequest, name: bytes, value: bytes | None) -> RawRequest:
    """Replace a header's value, add the header, or take it away."""
    kept = [pair for pair in request.headers if pair[0] != name]
    return replace(request, headers=kept if value is None else [*kept, (name, value)])


@pytest.mark.parametrize("request_", PUBLISHED)
def test_the_published_examples_are_accepted(request_: RawRequest) -> None:
    assert is_signed(request_.headers, request_.query)
    check(request_)


@pytest.mark.parametrize("request_", PUBLISHED)
def test_no_part_of_a_signed_request_can_be_changed(request_: RawRequest) -> None:
    changed = [
        replace(request_, method="DELETE"),
        replace(request_, path=request_.path + b"x"),
        replace(request_, path=request_.path.replace(b"/", b"//", 1)),
        replace(request_, query=request_.query + b"&x=1"),
        replace(request_, query=request_.query[:-1] + b"~"),
    ]
    names = {name for name in request_.headers if name[0] not in (b"authorization",)}
    changed += [with_header(request_, name, value + b"1") for name, value in names]
    changed += [with_header(request_, name, None) for name, _ in names]
    changed += [replace(request_, headers=[*request_.headers, (name, b"more")]) for name, _ in names]
    for request in changed:
        assert refusal(request) in {
            "SignatureDoesNotMatch",
            "AuthorizationHeaderMalformed",
            "AuthorizationQueryParametersError",
            "AccessDenied",
            "InvalidRequest",
            "InvalidArgument",
        }, request


@pytest.mark.parametrize("minutes", [-16, 16, 60 * 24 * 365])
def test_old_and_future_signatures_are_refused(minutes: int) -> None:
    assert refusal(GET_OBJECT, NOW + timedelta(minutes=minutes)) == "RequestTimeTooSkewed"


def test_a_presigned_url_lives_as_long_as_it_says() -> None:
    check(PRESIGNED, NOW + timedelta(hours=23, minutes=59))
    assert refusal(PRESIGNED, NOW + timedelta(hours=24, seconds=1)) == "AccessDenied"
    assert refusal(PRESIGNED, NOW - timedelta(minutes=16)) == "RequestTimeTooSkewed"
