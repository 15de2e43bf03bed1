"""Checksums of a body, in a header or in a trailer.

A checksum is computed while the body is streamed and compared after the last byte, so a wrong body fails before an
object becomes visible.

Source: S3 user guide "Checking object integrity".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from typing import Protocol

from lakefs_embedded.gateway.crc64 import crc64_nvme
from lakefs_embedded.gateway.errors import S3Error

PREFIX = "x-amz-checksum-"


class Checksum(Protocol):
    """An incremental checksum with hashlib's interface."""

    def update(self, data: bytes, /) -> None:
        """Add data."""

    def digest(self) -> bytes:
        """Return the checksum of the data so far."""


class _Crc:
    """A CRC as an incremental checksum of `width` bytes; `step(data, crc)` returns the CRC after adding data."""

    def __init__(self, step: Callable[[bytes, int], int], width: int) -> None:
        self._step = step
        self._width = width
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width, "big")


def new_checksum(name: str) -> Checksum:
    """Start a checksum by its header name, `x-amz-checksum-…` or `content-md5`; raises S3Error."""
    match name.removeprefix(PREFIX):
        case "crc32":
            return _Crc(zlib.crc32, 4)
        case "crc32c":
            import crc32c

            return _Crc(crc32c.crc32c, 4)
        case "crc64nvme":
            return _Crc(crc64_nvme, 8)
        case "sha1":
            return hashlib.sha1(usedforsecurity=False)
        case "sha256":
            return hashlib.sha256()
        case "content-md5":
            return hashlib.md5(usedforsecurity=False)
    raise S3Error("InvalidRequest", f"The checksum algorithm of {name} is not supported")


class ExpectedChecksum:
    """An expected checksum of a body: header name of the algorithm, and base64; None if a trailer will give it."""

    def __init__(self, name: str, value: str | None = None) -> None:
        self.name = name
        self._running = new_checksum(name)
        self._wanted: bytes | None = None
        if value is not None:
            self.set(value)

    def set(self, value: str) -> None:
        """Set the expected value (base64); raises S3Error if it is malformed."""
        try:
            self._wanted = base64.b64decode(value, validate=True)
        except binascii.Error:
            self._wanted = None
        if self._wanted is None or len(self._wanted) != len(self._running.digest()):
            raise S3Error("InvalidDigest", f"The value of {self.name} is malformed")

    def update(self, data: bytes) -> None:
        """Add data of the body."""
        self._running.update(data)

    def check(self) -> None:
        """Compare, at the end of the body. Raises S3Error: different, or the announced trailer is missing."""
        if self._wanted is None:
            raise S3Error("IncompleteBody", f"The trailer {self.name} was announced but not sent")
        if self._running.digest() != self._wanted:
            raise S3Error("BadDigest", f"The {self.name} you specified did not match what was received.")
