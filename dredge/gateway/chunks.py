"""The encoding `aws-chunked`: a body in chunks, each signed or not, with checksums behind it or not.

    400;chunk-signature=0055…497c\\r\\n <1024 bytes> \\r\\n      STREAMING-AWS4-HMAC-SHA256-PAYLOAD
    0;chunk-signature=b6c6…a2d9\\r\\n \\r\\n

    400\\r\\n <1024 bytes> \\r\\n                               STREAMING-UNSIGNED-PAYLOAD-TRAILER
    0\\r\\n x-amz-checksum-crc32:wQiPHw==\\r\\n \\r\\n

A chunk's signature is over the one before it, the first over the request's. A chunk of any size passes in
pieces: its bytes go on before its signature is compared, and a wrong one ends the body in an error.

Source: AWS "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks",
"… Including Trailing Headers".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping

from dredge.gateway.checksums import Expected
from dredge.gateway.failures import S3Error
from dredge.gateway.sigv4 import ALGORITHM, Claim, sign

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
    """The chain of signatures over a body's chunks.

    Args:
        key: of the request's scope.
        claim: the request's own signature, the first of the chain.
    """

    def __init__(self, key: bytes, claim: Claim) -> None:
        self._key = key
        self._claim = claim
        self._previous = claim.signature

    def check_chunk(self, found: str, digest: str) -> None:
        """Compare a chunk's signature; it becomes the one before."""
        self._check(found, f"{ALGORITHM}-PAYLOAD", f"{_EMPTY}\n{digest}")

    def check_trailers(self, found: str, digest: str) -> None:
        """Compare the signature over the trailers."""
        self._check(found, f"{ALGORITHM}-TRAILER", digest)

    def _check(self, found: str, kind: str, last: str) -> None:
        text = f"{kind}\n{self._claim.stamp}\n{self._claim.scope}\n{self._previous}\n{last}"
        if not hmac.compare_digest(sign(self._key, text).hex(), found):
            raise S3Error("SignatureDoesNotMatch", "The signature of a chunk does not match its bytes.")
        self._previous = found


class _Source:
    """Bytes that come in pieces, read as lines or by count."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._held = b""
        self._at = 0

    def line(self) -> bytes:
        """The next line, without its end."""
        while (end := self._held.find(b"\r\n", self._at)) < 0:
            if len(self._held) - self._at > _LINE_MAX:
                raise S3Error("IncompleteBody")
            self._more()
        line = self._held[self._at : end]
        self._at = end + 2
        return line

    def take(self, count: int) -> Iterator[bytes]:
        """So many bytes, in pieces."""
        while count:
            if self._at == len(self._held):
                self._more()
            piece = self._held[self._at : self._at + count]
            self._at += len(piece)
            count -= len(piece)
            yield piece

    def end(self) -> None:
        """Nothing may be left; one empty line, which some clients send, is no harm."""
        rest = self._held[self._at :] + b"".join(self._pieces)
        if rest not in (b"", b"\r\n"):
            raise S3Error("IncompleteBody")

    def _more(self) -> None:
        piece = next(self._pieces, b"")
        if not piece:
            raise S3Error("IncompleteBody")
        self._held = self._held[self._at :] + piece if self._at < len(self._held) else piece
        self._at = 0


def decode(
    pieces: Iterable[bytes], mode: str, signatures: Signatures, trailers: Mapping[str, Expected]
) -> Iterator[bytes]:
    """Yield the bytes inside the encoding.

    Args:
        pieces: the body as it came.
        mode: one of MODES.
        signatures: of the chunks; not asked in an unsigned mode.
        trailers: the checksums that were announced, by name; they are told their values.

    Raises:
        S3Error: a chunk's signature is wrong, the body ends early, or it is not so encoded.
    """
    source = _Source(pieces)
    is_signed = mode != UNSIGNED_TRAILER
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
        if is_signed:
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


def _read_trailers(source: _Source, signatures: Signatures | None, trailers: Mapping[str, Expected]) -> None:
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
