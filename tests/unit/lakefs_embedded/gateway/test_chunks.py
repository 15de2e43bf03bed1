"""Bodies in chunks: AWS's published examples, every cut of the stream, and every way to tamper with one."""

import base64
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.payload import SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER, Payload
from lakefs_embedded.gateway.sigv4 import RawRequest, read_claim, verify

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
CREDENTIAL = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
CONTENT = b"a" * 66560

# Source: AWS S3 API reference, "Transferring Payload in Multiple Chunks", and the same "Including Trailing
# Headers": 64 KiB and 1 KiB of the letter a.
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
CHUNKS = (
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
)
TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
TRAILER_CHUNKS = (
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
)
TRAILER = b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
TRAILER_SIGNATURE = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"


def request(payload: str, signature: str = SEED, **more: str) -> RawRequest:
    headers = {
        "host": "s3.amazonaws.com",
        "x-amz-date": "20130524T000000Z",
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
        "x-amz-content-sha256": payload,
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": "66560",
        **more,
    }
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={CREDENTIAL},SignedHeaders={';'.join(sorted(headers))},"
        f"Signature={signature}"
    )
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    path = b"/examplebucket/chunkObject.txt"
    return RawRequest("PUT", path, b"", [*pairs, (b"authorization", authorization.encode())])


def chunked(parts: list[bytes], signatures: tuple[str, ...], trailers: bytes = b"") -> bytes:
    body = b""
    for part, signature in zip([*parts, b""], signatures, strict=True):
        extension = f";chunk-signature={signature}" if signature else ""
        body += f"{len(part):x}{extension}\r\n".encode() + (part + b"\r\n" if part else b"")
    return body + trailers + b"\r\n"


EXAMPLE = request(SIGNED, **{"content-length": "66824"})
BODY = chunked([CONTENT[:65536], CONTENT[65536:]], CHUNKS)
TRAILER_EXAMPLE = request(SIGNED_TRAILER, TRAILER_SEED, **{"x-amz-trailer": "x-amz-checksum-crc32c"})
TRAILER_BODY = chunked(
    [CONTENT[:65536], CONTENT[65536:]],
    TRAILER_CHUNKS,
    TRAILER + f"x-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n".encode(),
)
SUM = base64.b64encode(zlib.crc32(CONTENT).to_bytes(4, "big"))
UNSIGNED_EXAMPLE = request(UNSIGNED_TRAILER, **{"x-amz-trailer": "x-amz-checksum-crc32"})
UNSIGNED_BODY = chunked(
    [CONTENT[:65536], CONTENT[65536:]], ("", "", ""), b"x-amz-checksum-crc32:" + SUM + b"\r\n"
)
ALL = [(EXAMPLE, BODY), (TRAILER_EXAMPLE, TRAILER_BODY), (UNSIGNED_EXAMPLE, UNSIGNED_BODY)]


def cut(body: bytes, size: int) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def read(raw: RawRequest, body: bytes, size: int = 1000) -> bytes:
    return b"".join(Payload(raw, read_claim(raw), SECRET, cut(body, size)).open())


def refusal(raw: RawRequest, body: bytes) -> str:
    with pytest.raises(S3Error) as refused:
        read(raw, body)
    return refused.value.code


@pytest.mark.parametrize("raw", [EXAMPLE, TRAILER_EXAMPLE])
def test_the_published_requests_are_accepted(raw: RawRequest) -> None:
    verify(raw, read_claim(raw), SECRET, datetime(2013, 5, 24, tzinfo=UTC))


@pytest.mark.parametrize(("raw", "body"), ALL)
def test_a_changed_byte_ends_in_an_error(raw: RawRequest, body: bytes) -> None:
    at = body.index(b"aaaa") + 1000
    changed = body[:at] + b"b" + body[at + 1 :]
    assert refusal(raw, changed) in {"SignatureDoesNotMatch", "BadDigest"}
