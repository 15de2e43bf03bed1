"""The body of a request: decoded, compared with everything that was said of it, and never held whole."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator

from dredge.gateway.checksums import PREFIX, Expected
from dredge.gateway.chunks import MODES, Signatures, decode
from dredge.gateway.failures import S3Error
from dredge.gateway.sigv4 import UNSIGNED, Claim, RawRequest

# What may stand behind the algorithm in such a header without being a value.
_NO_ALGORITHM = frozenset({"x-amz-checksum-type", "x-amz-checksum-algorithm", "x-amz-checksum-mode"})


class Payload:
    """What a verified request says of its body, and the body.

    Args:
        request: with its headers.
        claim: its signature, verified.
        secret: of the key that signed.
        pieces: the body as it comes.
    """

    def __init__(self, request: RawRequest, claim: Claim, secret: str, pieces: Iterable[bytes]) -> None:
        self._request = request
        self._claim = claim
        self._secret = secret
        self._pieces = pieces

    def open(self, *, checksums: bool = True) -> Iterator[bytes]:
        """Yield the body's bytes. The comparisons come behind the last piece.

        Args:
            checksums: compare those in headers too. They mean something else where a body only describes an
                object (completing a multipart upload).

        Raises:
            S3Error: at once, when the headers make no sense; at the end, when the body is not what they say.
        """
        headers = self._header_checksums() if checksums else []
        payload = self._claim.payload
        if payload in MODES:
            length = self._decoded_length()
            trailers = self._trailers()
            signatures = Signatures(self._claim.signing_key(self._secret), self._claim)
            inner = decode(self._pieces, payload, signatures, trailers)
            return _compared(inner, [*headers, *trailers.values()], length=length)
        if payload == UNSIGNED:
            return _compared(self._pieces, headers)
        if payload.startswith("STREAMING-"):
            raise S3Error("NotImplemented", f"The signing of bodies as {payload} is not implemented")
        return _compared(self._pieces, headers, sha256=payload)

    def read(self, limit: int, *, checksums: bool = True) -> bytes:
        """Read a small body whole.

        Args:
            limit: its largest size.
            checksums: see `open`.

        Raises:
            S3Error: as `open`, or it is larger.
        """
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
            raise S3Error("MissingContentLength", "x-amz-decoded-content-length must be given")
        return int(text)

    def _trailers(self) -> dict[str, Expected]:
        names = [name.strip().lower() for name in self._request.text("x-amz-trailer").split(",")]
        return {name: Expected(name) for name in names if name}

    def _header_checksums(self) -> list[Expected]:
        found = []
        for raw_name, raw_value in self._request.headers:
            if raw_name.startswith(PREFIX.encode()) or raw_name == b"content-md5":
                name = raw_name.decode("latin-1")
                if name not in _NO_ALGORITHM:
                    found.append(Expected(name, raw_value.decode("latin-1").strip()))
        return found


def _compared(
    pieces: Iterable[bytes],
    checksums: list[Expected],
    *,
    sha256: str | None = None,
    length: int | None = None,
) -> Iterator[bytes]:
    """Pass a body on, and compare it when it ended."""
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
