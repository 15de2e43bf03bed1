"""The body of a request: decoded, verified against the request's headers and trailers, streamed."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator

from lakefs_embedded.gateway.checksums import PREFIX, ExpectedChecksum
from lakefs_embedded.gateway.chunks import MODES, Signatures, decode
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.sigv4 import UNSIGNED, Claim, RawRequest

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
