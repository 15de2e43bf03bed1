"""Checksums that clients send with a body, in a header or behind it.

A body is compared while it passes; the last piece is followed by the comparison, so a wrong body ends in an
error before anything was made visible.

Source: S3 user guide "Checking object integrity".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from typing import Protocol

from dredge.gateway.crc64 import crc64_nvme
from dredge.gateway.failures import S3Error

PREFIX = "x-amz-checksum-"


class Checksum(Protocol):
    """A running checksum, as hashlib has them."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes."""

    def digest(self) -> bytes:
        """The checksum so far."""


class _Crc:
    """A CRC as a running checksum.

    Args:
        step: `step(data, so_far)` gives the CRC with data added.
        width: bytes of the result.
    """

    def __init__(self, step: Callable[[bytes, int], int], width: int) -> None:
        self._step = step
        self._width = width
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width, "big")


def new_checksum(name: str) -> Checksum:
    """Start a checksum.

    Args:
        name: as in headers: `x-amz-checksum-…` or `content-md5`.

    Raises:
        S3Error: there is no such algorithm.
    """
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


class Expected:
    """One checksum that a body must have.

    Args:
        name: of the algorithm, see `new_checksum`.
        value: in base64; None when it comes behind the body, see `set`.

    Raises:
        S3Error: the value can be none of this algorithm.
    """

    def __init__(self, name: str, value: str | None = None) -> None:
        self.name = name
        self._running = new_checksum(name)
        self._wanted: bytes | None = None
        if value is not None:
            self.set(value)

    def set(self, value: str) -> None:
        """Say what it must be."""
        try:
            self._wanted = base64.b64decode(value, validate=True)
        except binascii.Error:
            self._wanted = None
        if self._wanted is None or len(self._wanted) != len(self._running.digest()):
            raise S3Error("InvalidDigest", f"The value of {self.name} is not valid")

    def update(self, data: bytes) -> None:
        """Take more bytes of the body."""
        self._running.update(data)

    def check(self) -> None:
        """Compare, at the end of the body.

        Raises:
            S3Error: it differs, or was never given.
        """
        if self._wanted is None:
            raise S3Error("IncompleteBody", f"The trailer {self.name} was announced and did not come")
        if self._running.digest() != self._wanted:
            raise S3Error("BadDigest", f"The {self.name} you specified did not match what was received.")
