"""Checksums of a body, in a header or in a trailer.

A checksum is computed while the body is streamed and compared after the last byte, so a wrong body fails before an
object becomes visible.

CRC-64/NVME, the default of recent AWS clients, runs at some hundred MB/s with numpy alone. A CRC is linear over GF(2).
So data is laid out as many short rows, the CRCs of all rows are advanced together with numpy, and then combined in
pairs: the left one is shifted over the right one's length (a linear map of 64 bits, stored as eight tables of 256) and
added to it.

    rows (64 bytes each)   r0 r1 r2 r3 …
    folded                 shift(r0) ^ r1, shift(r2) ^ r3, … until one is left

Vector: the CRC of `123456789` is ae8b14860a799888.

Source: S3 user guide "Checking object integrity"; NVM Express NVM Command Set Specification 1.0, section 5.2.1.3.4
(polynomial ad93d23594c93659).
"""

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np

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


_POLYNOMIAL = 0x9A6C9329AC4BC9B5  # reflected
_MASK = (1 << 64) - 1
_ROW_BYTES = 64
_ROWS = 4096  # rows per step: 256 KiB

type _Words = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]


def crc64_nvme(data: bytes, value: int = 0) -> int:
    """Extend a CRC with data; `value` is the CRC of the preceding bytes, 0 if there are none."""
    register = value ^ _MASK
    view = memoryview(data)
    while len(view) >= _ROW_BYTES * 2:
        rows = 1 << min(_ROWS.bit_length() - 1, (len(view) // _ROW_BYTES).bit_length() - 1)
        size = rows * _ROW_BYTES
        register = _fold(_rows(view[:size], rows), register, size)
        view = view[size:]
    table = _byte_table_list()
    for byte in view:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ _MASK


def _rows(view: memoryview, rows: int) -> _Words:
    table = _byte_table()
    columns = np.ascontiguousarray(np.frombuffer(view, np.uint8).reshape(rows, _ROW_BYTES).T)
    registers = np.zeros(rows, np.uint64)
    for column in columns:
        registers = table[(registers.astype(np.uint8)) ^ column] ^ (registers >> np.uint64(8))
    return registers


def _fold(registers: _Words, before: int, size: int) -> int:
    distance = _ROW_BYTES
    while len(registers) > 1:
        registers = _shift(registers[0::2], distance) ^ registers[1::2]
        distance *= 2
    moved = _shift(np.array([before], np.uint64), size)
    return int(moved[0] ^ registers[0])


def _shift(registers: _Words, distance: int) -> _Words:
    tables = _shift_tables(distance)
    moved = np.zeros_like(registers)
    for index in range(8):
        moved ^= tables[index][(registers >> np.uint64(8 * index)).astype(np.uint8)]
    return moved


@cache
def _byte_table() -> _Words:
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = np.where(
            table & np.uint64(1), (table >> np.uint64(1)) ^ np.uint64(_POLYNOMIAL), table >> np.uint64(1)
        )
    return table


@cache
def _byte_table_list() -> list[int]:
    return [int(value) for value in _byte_table()]


@cache
def _shift_tables(distance: int) -> _Words:
    tables = (
        np.arange(256, dtype=np.uint64)[None, :] << (np.arange(8, dtype=np.uint64) * np.uint64(8))[:, None]
    )
    if distance == _ROW_BYTES:
        for _ in range(_ROW_BYTES):
            tables = _byte_table()[tables.astype(np.uint8)] ^ (tables >> np.uint64(8))
        return tables
    half = distance // 2
    return _shift(_shift(tables.reshape(-1), half), half).reshape(8, 256)
