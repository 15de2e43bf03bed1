"""The frame around every metadata file: a header of 39 bytes, then a zstd frame with a flatbuffer.

    offset  length  meaning
    0       12      magic 49 43 45 F0 9F A7 8A 43 48 55 4E 4B  ("ICE", an ice cube in UTF-8, "CHUNK")
    12      24      writer, padded with spaces, e.g. "ic-2.3.0"
    36      1       spec version: 1 or 2
    37      1       file type: 1 snapshot, 2 manifest, 4 transaction log, 6 repo info
    38      1       compression: 1 zstd (the only value in use)
    39              the zstd frame; releases before 2.3 do not declare its decoded size

The decoded size is bounded before any allocation: the frame's blocks are walked (a block decodes to at most 128 KiB and
has its length in its header), so a small file with a claim of gigabytes is refused before decoding.

Every byte of a decoded body must be part of a structure reachable from the root, or padding.

Files have no checksum. A flipped bit in a length, an offset or a table of offsets can leave a body that still parses
with one manifest, snapshot or chunk fewer. The lost part is still in the body, but unreachable. So each reachable
field, vector and string is checked against the body's bounds and marked, and all unmarked bytes must be zero, as in the
padding between structures. The schemas give the structures (`flatbuffer` explains the layout); an unknown field is
damage or belongs to a newer library, and might refer to live objects: the file is refused either way.

A flipped bit in a value, such as an id, passes. Then an object is missing from the store, and a collection stops.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from dredge.errors import FormatError
from dredge.icechunk.format.kernels import loop_for

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


class ReadLimits(Struct, frozen=True):
    """Upper bounds on the memory of a reader."""

    file_bytes_max: int = 1 << 30
    body_bytes_max: int = (1 << 31) - 1
    rows_max: int = 500_000_000


READ_LIMITS = ReadLimits()


class Opened(Struct, frozen=True, eq=False):
    """A file's header and decoded body."""

    name: str
    file_type: FileType
    spec_version: int
    writer: str
    header: bytes
    size: int
    padded: npt.NDArray[np.uint8]

    @property
    def body(self) -> bytes:
        """Return a copy of the decoded body."""
        return self.padded[: self.size].tobytes()

    @property
    def view(self) -> memoryview:
        """Return a view of the decoded body."""
        return memoryview(self.padded)[: self.size]


def open_file(data: bytes, name: str, expected: FileType, limits: ReadLimits = READ_LIMITS) -> Opened:
    """Check the header and decode the body."""
    header = _checked_header(data, name, limits)
    try:
        file_type = FileType(header[37])
    except ValueError:
        raise FormatError(f"{name}: unknown file type {header[37]} at byte 37") from None
    if file_type != expected:
        raise FormatError(f"{name}: a {_words(file_type)} instead of a {_words(expected)} (byte 37)")
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
    """Encode a body with the header of its original file. The frame declares its decoded size, as in Icechunk 2.3; all
    releases read such files."""
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
        raise FormatError(f"{name}: damaged: no zstd frame at byte {start}")
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


type Cover = npt.NDArray[np.uint8]
type Slot = tuple[int, int, str]
type Views = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]

_DEPTH_MAX = 16
_USE_BYTES = 12


def _field(width: int) -> Slot:
    return 0, width, ""


def _vector(width: int) -> Slot:
    return 1, width, ""


def _table(name: str) -> Slot:
    return 3, 0, name


def _tables(name: str) -> Slot:
    return 4, 0, name


_STRING: Slot = (2, 0, "")
_STRINGS: Slot = (5, 0, "")
_BYTES = _vector(1)
_ID, _NODE_ID = _field(12), _field(8)
_U8, _U16, _U32, _U64 = (_field(width) for width in (1, 2, 4, 8))

_UPDATES: dict[str, Sequence[Slot]] = {  # in the order of `repo_info.UPDATE_KINDS`, without its first
    "initialised": [],
    "migrated": [_U8, _U8],
    "configuration changed": [],
    "metadata changed": [],
    "tag created": [_STRING],
    "tag deleted": [_STRING, _ID],
    "branch created": [_STRING],
    "branch deleted": [_STRING, _ID],
    "branch reset": [_STRING, _ID],
    "commit": [_STRING, _ID],
    "amend": [_STRING, _ID, _ID],
    "detached snapshot": [_ID],
    "collection ran": [],
    "expiration ran": [],
    "feature flag changed": [_U16, _U8, _U8],
    "status changed": [_table("status")],
}
_NODE_DATA: dict[str, Sequence[Slot]] = {
    "array": [_vector(16), _tables("dimension name"), _tables("manifest use"), _tables("dimension")],
    "group": [],
}
_METADATA: dict[str, Sequence[Slot]] = {"metadata": [_STRING, _BYTES]}

_SNAPSHOT: dict[str, Sequence[Slot]] = {
    "snapshot": [
        _ID,
        _ID,
        _tables("node"),
        _U64,
        _STRING,
        _tables("metadata"),
        _vector(32),
        _tables("manifest info"),
        _BYTES,
    ],
    "node": [_NODE_ID, _STRING, _BYTES, _U8, (6, len(_NODE_DATA), "array"), _BYTES],
    **_NODE_DATA,
    "dimension name": [_STRING],
    "dimension": [_U64, _U32],
    "manifest use": [_ID, _vector(8)],
    "manifest info": [_ID, _U64, _U32, _BYTES],
    **_METADATA,
}
_MANIFEST: dict[str, Sequence[Slot]] = {
    "manifest": [_ID, _tables("array"), _BYTES, _U8, _BYTES],
    "array": [_NODE_ID, (7, 0, ""), _BYTES],  # `kernels.native_hashes` follows the references
}
_REPO_INFO: dict[str, Sequence[Slot]] = {
    "repo": [
        _U8,
        _tables("ref"),
        _tables("ref"),
        _STRINGS,
        _tables("snapshot"),
        _table("status"),
        _tables("metadata"),
        _tables("update"),
        _STRING,
        _BYTES,
        _vector(2),
        _vector(2),
        _BYTES,
    ],
    "ref": [_STRING, _U32],
    "snapshot": [_ID, _field(4), _U64, _STRING, _tables("metadata"), _vector(12)],
    "status": [_U8, _U64, _STRING],
    "update": [_U8, (6, len(_UPDATES), "initialised"), _U64, _STRING],
    **_UPDATES,
    **_METADATA,
}


class _Schema:
    """Types of tables as arrays for `kernels.account`; the first type is the root's."""

    def __init__(self, tables: dict[str, Sequence[Slot]], wanted: str = "") -> None:
        number = {name: row for row, name in enumerate(tables)}
        slots = [slot for found in tables.values() for slot in found]
        self.kinds = np.array([kind for kind, _, _ in slots], np.int32)
        self.widths = np.array([width for _, width, _ in slots], np.int32)
        self.below = np.array([number.get(name, -1) for _, _, name in slots], np.int32)
        self.firsts = np.cumsum([0, *(len(found) for found in tables.values())]).astype(np.int32)
        self.wanted = int(self.firsts[number[wanted]]) if wanted else -1


_SCHEMAS = {
    FileType.SNAPSHOT: _Schema(_SNAPSHOT, "manifest use"),
    FileType.MANIFEST: _Schema(_MANIFEST),
    FileType.REPO_INFO: _Schema(_REPO_INFO),
}


def views_of(opened: Opened) -> Views:
    """Return the body as arrays of one, two and four bytes; the latter two include padding."""
    padded = opened.padded
    return padded[: opened.size], padded.view("<u2"), padded.view("<u4")


def account(
    opened: Opened, *, whole: bool = True, uses: bool = False, run: Callable[..., int] | None = None
) -> tuple[Cover, npt.NDArray[np.int64]]:
    """Mark the bytes of every structure in a body; returns the marks, and the places where nodes use manifests."""
    schema = _SCHEMAS[opened.file_type]
    cover: Cover = np.zeros(len(opened.padded) // 4, np.uint8)
    frames = np.empty((_DEPTH_MAX, 3), np.int64)
    found = np.empty(opened.size // _USE_BYTES + 2 if uses else 1, np.int64)
    arrays = schema.kinds, schema.widths, schema.below, schema.firsts
    wanted = schema.wanted if uses else -1
    loop = run or loop_for("account", opened.size)
    damaged = loop(*views_of(opened), *arrays, frames, cover, wanted, found, whole)
    if damaged >= 0:
        raise _unsound(opened, damaged)
    return cover, found[1 : found[0] + 1]


def check_covered(opened: Opened, cover: Cover, run: Callable[..., int] | None = None) -> None:
    """Check that all unmarked bytes are zero; raises FormatError."""
    _, _, words = views_of(opened)
    place = (run or loop_for("uncovered", opened.size))(words, cover, len(cover))
    if place >= 0:
        raise _unsound(opened, place)


def _unsound(opened: Opened, place: int) -> FormatError:
    return FormatError(
        f"{opened.name}: damaged, or of a newer format than this reader knows: byte {place} of the decoded body"
        f" ({opened.size} bytes) belongs to no known structure"
    )


def open_accounted(
    data: bytes, name: str, expected: FileType, *, uses: bool = False
) -> tuple[Opened, npt.NDArray[np.int64]]:
    """Open a snapshot or a repo info, and check every byte; returns it with the places where nodes use manifests."""
    opened = open_file(data, name, expected)
    return opened, account(opened, uses=uses)[1]
