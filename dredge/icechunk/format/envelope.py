"""The frame around every metadata file: a header of 39 bytes, then a zstd frame with a flatbuffer.

    offset  length  meaning
    0       12      magic 49 43 45 F0 9F A7 8A 43 48 55 4E 4B  ("ICE", an ice cube in UTF-8, "CHUNK")
    12      24      writer, padded with spaces, e.g. "ic-2.3.0"
    36      1       spec version: 1 or 2
    37      1       file type: 1 snapshot, 2 manifest, 4 transaction log, 6 repo info
    38      1       compression: 1 zstd (the only value in use)
    39              the zstd frame; releases before 2.3 do not declare its decoded size

The decoded size is bounded before any allocation: the frame's blocks are walked (a block decodes to at most 128 KiB and
has its length in its header), so a small file with a claim of gigabytes is refused unread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError

MAGIC = bytes.fromhex("494345f09fa78a4348554e4b")
HEADER_BYTES = 39
SPEC_BYTE = 36
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
BLOCK_BYTES_MAX = 128 * 1024
COMPRESSION_LEVEL = 3


class FileType(IntEnum):
    """The type in a file's header."""

    SNAPSHOT = 1
    MANIFEST = 2
    TRANSACTION_LOG = 4
    REPO_INFO = 6


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Upper bounds on the memory of a reader."""

    file_bytes_max: int = 1 << 30
    body_bytes_max: int = (1 << 31) - 1
    rows_max: int = 500_000_000


READ_LIMITS = ReadLimits()


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A file without its frame."""

    name: str
    file_type: FileType
    spec_version: int
    writer: str
    header: bytes
    size: int
    padded: npt.NDArray[np.uint8]

    @property
    def body(self) -> bytes:
        """A copy of the decoded body."""
        return self.padded[: self.size].tobytes()

    @property
    def view(self) -> memoryview:
        """The decoded body itself."""
        return memoryview(self.padded)[: self.size]


def open_file(data: bytes, name: str, expected: FileType, limits: ReadLimits = READ_LIMITS) -> Opened:
    """Check the header and decode the body."""
    header = _checked_header(data, name, limits)
    try:
        file_type = FileType(header[37])
    except ValueError:
        raise FormatError(f"{name}: unknown file type {header[37]} at byte 37") from None
    if file_type != expected:
        raise FormatError(f"{name}: is a {_words(file_type)}, expected a {_words(expected)} (byte 37)")
    size, padded = _decompress(data, name, limits)
    return Opened(
        name=name,
        file_type=file_type,
        spec_version=header[SPEC_BYTE],
        writer=header[12:36].decode("ascii", "replace").rstrip(" \0"),
        header=header,
        size=size,
        padded=padded,
    )


def close_file(header: bytes, body: bytes) -> bytes:
    """Put a body behind the header of its original file. The frame declares its decoded size, as in files of Icechunk
    2.3; all releases read it."""
    import cramjam

    return header + bytes(cramjam.zstd.compress(body, COMPRESSION_LEVEL))


def _checked_header(data: bytes, name: str, limits: ReadLimits) -> bytes:
    if len(data) > limits.file_bytes_max:
        raise FormatError(f"{name}: {len(data)} bytes, more than the limit of {limits.file_bytes_max}")
    header = bytes(data[:HEADER_BYTES])
    if header[: len(MAGIC)] != MAGIC[: len(header)] or not header:
        raise FormatError(f"{name}: not an Icechunk file (wrong magic at byte 0)")
    if len(header) < HEADER_BYTES:
        raise FormatError(f"{name}: truncated in the header ({len(header)} of {HEADER_BYTES} bytes)")
    if header[SPEC_BYTE] not in (1, 2):
        raise FormatError(
            f"{name}: unknown spec version {header[SPEC_BYTE]} at byte {SPEC_BYTE}; this reader knows 1 and 2"
        )
    if header[38] != 1:
        raise FormatError(f"{name}: unknown compression {header[38]} at byte 38; only 1 (zstd) is known")
    return header


def _words(file_type: FileType) -> str:
    return file_type.name.lower().replace("_", " ")


def _decompress(data: bytes, name: str, limits: ReadLimits) -> tuple[int, npt.NDArray[np.uint8]]:
    import cramjam

    bound = decoded_bytes_bound(data, HEADER_BYTES, name)
    if bound > limits.body_bytes_max + BLOCK_BYTES_MAX:
        raise FormatError(
            f"{name}: decodes to up to {bound} bytes, more than the limit of {limits.body_bytes_max}"
        )
    # Memory behind the written bytes is never touched, so a bound that is too large costs none.
    out = np.empty(bound + 8, dtype=np.uint8)
    try:
        written = (
            int(cramjam.zstd.decompress_into(memoryview(data)[HEADER_BYTES:], out[:bound])) if bound else 0
        )
    except cramjam.DecompressionError as error:
        raise FormatError(f"{name}: damaged zstd frame: {error}") from None
    if written > limits.body_bytes_max:
        raise FormatError(
            f"{name}: decodes to {written} bytes, more than the limit of {limits.body_bytes_max}"
        )
    end = written + 8 - written % 8
    out[written:end] = 0
    return written, out[:end]


def decoded_bytes_bound(data: bytes, start: int, name: str) -> int:
    """Walk a zstd frame without decoding it, and return an upper bound of the decoded size: exact for raw and repeated
    blocks, 128 KiB for a compressed block; at most the size that the frame declares.

    Source: RFC 8878, sections 3.1.1 and 3.1.1.2.
    """
    end = len(data)
    if data[start : start + 4] != ZSTD_MAGIC:
        raise FormatError(f"{name}: no zstd frame at byte {start}")
    if start + 5 > end:
        raise FormatError(f"{name}: truncated in the zstd frame header")
    descriptor = data[start + 4]
    single_segment = bool(descriptor & 0x20)
    place = start + 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    declared = None
    if size_bytes:
        declared = int.from_bytes(data[place : place + size_bytes], "little") + (
            256 if size_bytes == 2 else 0
        )
    place += size_bytes
    bound = 0
    last = False
    while not last:
        if place + 3 > end:
            raise FormatError(f"{name}: truncated in a zstd block header at byte {place} of {end}")
        block = int.from_bytes(data[place : place + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if kind == 3 or size > BLOCK_BYTES_MAX:
            raise FormatError(f"{name}: damaged zstd block at byte {place}")
        bound += BLOCK_BYTES_MAX if kind == 2 else size
        place += 3 + (1 if kind == 1 else size)
    place += 4 if descriptor & 4 else 0
    if place > end:
        raise FormatError(f"{name}: truncated: the zstd frame ends at byte {place}, the file at {end}")
    if place < end:
        raise FormatError(f"{name}: {end - place} bytes after the end of the zstd frame")
    return bound if declared is None else min(bound, declared)
