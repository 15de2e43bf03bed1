"""The body of a request: decoded, verified against the request's headers and trailers, streamed.

The encoding `aws-chunked` is a body in chunks, optionally signed, optionally followed by trailers with checksums:

    400;chunk-signature=0055…497c\\r\\n <1024 bytes> \\r\\n      STREAMING-AWS4-HMAC-SHA256-PAYLOAD
    0;chunk-signature=b6c6…a2d9\\r\\n \\r\\n

    400\\r\\n <1024 bytes> \\r\\n                               STREAMING-UNSIGNED-PAYLOAD-TRAILER
    0\\r\\n x-amz-checksum-crc32:wQiPHw==\\r\\n \\r\\n

A chunk's signature covers the previous chunk's signature, the first one the request's. A chunk of any size is passed on
in pieces as it arrives: its signature is compared after its last byte, and a wrong one fails the body.

Source: AWS "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks",
"… Including Trailing Headers".
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping

from lakefs_embedded.gateway.checksums import PREFIX, ExpectedChecksum
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.sigv4 import ALGORITHM, UNSIGNED, Claim, RawRequest, sign

# Headers with the prefix of a checksum that are not one.
_NOT_A_CHECKSUM = frozenset({"x-amz-checksum-type", "x-amz-checksum-algorithm", "x-amz-checksum-mode"})


class Payload:
    """The body of a request with a verified signature; `secret` is of the signing key."""

    def __init__(self, request: RawRequest, claim: Claim, secret: str, pieces: Iterable[bytes]) -> None:
        self._request = request
        self._claim = claim
        self._secret = secret
        self._pieces = pieces

    def open(self, *, checksums: bool = True) -> Iterator[bytes]:
        """Return an iterator over the decoded body, verified after the last byte.

        Without `checksums` the headers of checksums are not verified: on completing a multipart upload they are those
        of the object, not of the body.
        """
        headers = self._header_checksums() if checksums else []
        payload = self._claim.payload
        if payload in MODES:
            length = self._decoded_length()
            trailers = self._trailers()
            signatures = Signatures(self._claim.signing_key(self._secret), self._claim)
            inner = decode(self._pieces, payload, signatures, trailers)
            return _verified(inner, [*headers, *trailers.values()], length=length)
        if payload == UNSIGNED:
            return _verified(self._pieces, headers)
        if payload.startswith("STREAMING-"):
            raise S3Error("NotImplemented", f"The signing of bodies as {payload} is not implemented")
        return _verified(self._pieces, headers, sha256=payload)

    def read(self, limit: int, *, checksums: bool = True) -> bytes:
        """Read a whole body of at most `limit` bytes; otherwise as `open`."""
        parts: list[bytes] = []
        size = 0
        for piece in self.open(checksums=checksums):
            size += len(piece)
            if size > limit:
                raise S3Error("EntityTooLarge")
            parts.append(piece)
        return b"".join(parts)

    def _decoded_length(self) -> int:
        text = self._request.text("x-amz-decoded-content-length")
        if not (text.isascii() and text.isdecimal()):
            raise S3Error("MissingContentLength", "x-amz-decoded-content-length is required")
        return int(text)

    def _trailers(self) -> dict[str, ExpectedChecksum]:
        names = [name.strip().lower() for name in self._request.text("x-amz-trailer").split(",")]
        return {name: ExpectedChecksum(name) for name in names if name}

    def _header_checksums(self) -> list[ExpectedChecksum]:
        found = []
        for raw_name, raw_value in self._request.headers:
            if raw_name.startswith(PREFIX.encode()) or raw_name == b"content-md5":
                name = raw_name.decode("latin-1")
                if name not in _NOT_A_CHECKSUM:
                    found.append(ExpectedChecksum(name, raw_value.decode("latin-1").strip()))
        return found


def _verified(
    pieces: Iterable[bytes],
    checksums: list[ExpectedChecksum],
    *,
    sha256: str | None = None,
    length: int | None = None,
) -> Iterator[bytes]:
    digest = hashlib.sha256() if sha256 is not None else None
    size = 0
    for piece in pieces:
        size += len(piece)
        if length is not None and size > length:
            raise S3Error("IncompleteBody")
        if digest is not None:
            digest.update(piece)
        for checksum in checksums:
            checksum.update(piece)
        yield piece
    if length is not None and size != length:
        raise S3Error("IncompleteBody")
    if digest is not None and sha256 is not None and not hmac.compare_digest(digest.hexdigest(), sha256):
        raise S3Error("XAmzContentSHA256Mismatch")
    for checksum in checksums:
        checksum.check()


SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
MODES = frozenset({SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER})

TRAILER_SIGNATURE = "x-amz-trailer-signature"
_LINE_MAX = 4096
_TRAILERS_MAX = 16
_EMPTY = hashlib.sha256(b"").hexdigest()
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})(?:;chunk-signature=([0-9a-f]{64}))?")


class Signatures:
    """The chain of signatures over the chunks of a body; that of the request is the first."""

    def __init__(self, key: bytes, claim: Claim) -> None:
        self._key = key
        self._claim = claim
        self._previous = claim.signature

    def check_chunk(self, found: str, digest: str) -> None:
        """Check the signature of the next chunk, whose data has the given SHA-256; raises S3Error."""
        self._check(found, f"{ALGORITHM}-PAYLOAD", f"{_EMPTY}\n{digest}")

    def check_trailers(self, found: str, digest: str) -> None:
        """Check the signature over the trailers; raises S3Error."""
        self._check(found, f"{ALGORITHM}-TRAILER", digest)

    def _check(self, found: str, kind: str, last: str) -> None:
        text = f"{kind}\n{self._claim.timestamp}\n{self._claim.scope}\n{self._previous}\n{last}"
        if not hmac.compare_digest(sign(self._key, text).hex(), found):
            raise S3Error("SignatureDoesNotMatch", "The signature of a chunk does not match its bytes.")
        self._previous = found


class _Source:
    """A stream of byte pieces, read by line or by size."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._buffer = b""
        self._offset = 0

    def line(self) -> bytes:
        """Read the next line, without its line break."""
        while (end := self._buffer.find(b"\r\n", self._offset)) < 0:
            if len(self._buffer) - self._offset > _LINE_MAX:
                raise S3Error("IncompleteBody")
            self._more()
        line = self._buffer[self._offset : end]
        self._offset = end + 2
        return line

    def take(self, count: int) -> Iterator[bytes]:
        """Read `count` bytes, in pieces."""
        while count:
            if self._offset == len(self._buffer):
                self._more()
            piece = self._buffer[self._offset : self._offset + count]
            self._offset += len(piece)
            count -= len(piece)
            yield piece

    def end(self) -> None:
        """Check that only one empty line is left, sent by some clients."""
        rest = self._buffer[self._offset :] + b"".join(self._pieces)
        if rest not in (b"", b"\r\n"):
            raise S3Error("IncompleteBody")

    def _more(self) -> None:
        piece = next(self._pieces, b"")
        if not piece:
            raise S3Error("IncompleteBody")
        self._buffer = self._buffer[self._offset :] + piece if self._offset < len(self._buffer) else piece
        self._offset = 0


def decode(
    pieces: Iterable[bytes],
    mode: str,
    signatures: Signatures | None,
    trailers: Mapping[str, ExpectedChecksum],
) -> Iterator[bytes]:
    """Decode a body, verify its chunks, and set the announced checksums from its trailers.

    `signatures` are unused in an unsigned mode, and None if chunks cannot be signed.
    """
    source = _Source(pieces)
    is_signed = mode != UNSIGNED_TRAILER
    if is_signed and signatures is None:
        raise S3Error("InvalidRequest", "Signed chunks need a request signed with version 4.")
    while True:
        match = _CHUNK.fullmatch(source.line())
        if match is None or (match[2] is None) is is_signed:
            raise S3Error("IncompleteBody")
        size = int(match[1], 16)
        digest = hashlib.sha256()
        for piece in source.take(size):
            if is_signed:
                digest.update(piece)
            yield piece
        if is_signed and signatures is not None:
            signatures.check_chunk(match[2].decode(), digest.hexdigest())
        if size == 0:
            break
        if source.line():
            raise S3Error("IncompleteBody")
    if mode == SIGNED:
        if source.line():
            raise S3Error("IncompleteBody")
    else:
        _read_trailers(source, signatures if is_signed else None, trailers)
    source.end()


def _read_trailers(
    source: _Source, signatures: Signatures | None, trailers: Mapping[str, ExpectedChecksum]
) -> None:
    lines: list[bytes] = []
    signature = ""
    for _ in range(_TRAILERS_MAX):
        line = source.line()
        if not line:
            break
        raw_name, colon, raw_value = line.partition(b":")
        name, value = raw_name.decode("latin-1").strip().lower(), raw_value.decode("latin-1").strip()
        if not colon:
            raise S3Error("IncompleteBody")
        if name == TRAILER_SIGNATURE:
            signature = value
        elif name in trailers:
            trailers[name].set(value)
            lines.append(f"{name}:{value}\n".encode())
        else:
            raise S3Error("IncompleteBody", f"The trailer {name} was not announced")
    if signatures is not None:
        signatures.check_trailers(signature, hashlib.sha256(b"".join(lines)).hexdigest())
