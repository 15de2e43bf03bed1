"""The column reader's expected result for data blocks, in plain Python; it reads the same fields of an entry."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files.sstable.layout import RECORD_TRAILER, block_entries, get_uvarint

type Row = tuple[bytes, str, int, int, str]
"""Key, address, address type, size, ETag."""

_LENGTH_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Stated:
    """The table's properties about its records."""

    count: int
    max_key: bytes
    key_bytes: int
    value_bytes: int


def plain_rows(bodies: Iterable[bytes], stated: Stated) -> list[Row] | None:
    """Read uncompressed data blocks; None for any error."""
    try:
        return _rows([bytes(body) for body in bodies], stated)
    except (FormatError, ValueError):
        return None


def _rows(bodies: Sequence[bytes], stated: Stated) -> list[Row]:
    rows: list[Row] = []
    key_bytes = value_bytes = 0
    last: bytes | None = None
    for body in bodies:
        before = len(rows)
        for internal, value in block_entries(body, "x", "x"):
            key = internal[:-8]
            if not internal.endswith(RECORD_TRAILER) or (last is not None and key <= last):
                raise ValueError("a key that may not stand here")
            last = key
            key_bytes, value_bytes = key_bytes + len(internal), value_bytes + len(value)
            rows.append((key, *_entry(_data_of(value))))
        if len(rows) == before and len(bodies) > 1:
            raise ValueError("no records")
    if Stated(len(rows), last or b"", key_bytes, value_bytes) != stated:
        raise ValueError("not what the properties say")
    return rows


def _data_of(value: bytes) -> bytes:
    at = 0
    piece = b""
    for _ in range(2):
        zigzag, at = _length(value, at)
        size = zigzag >> 1
        if zigzag & 1 or size > len(value) - at:
            raise ValueError("cut off")
        piece, at = value[at : at + size], at + size
    return piece


def _entry(data: bytes) -> tuple[str, int, int, str]:
    address = etag = b""
    size = address_type = at = 0
    while at < len(data):
        tag, at = _length(data, at)
        if tag < 8:
            raise ValueError("no field")
        match tag & 7:
            case 2:
                length, at = _length(data, at)
                if length > len(data) - at:
                    raise ValueError("cut off")
                text, at = data[at : at + length], at + length
                address = text if tag == 10 else address
                etag = text if tag == 34 else etag
            case 0:
                number, at = get_uvarint(data, at, len(data))
                size = number if tag == 24 else size
                address_type = number if tag == 48 else address_type
            case 1 | 5 as wire:
                at += 8 if wire == 1 else 4
                if at > len(data):
                    raise ValueError("cut off")
            case _:
                raise ValueError("no wire type")
    if address_type > 2:
        raise ValueError("no address type")
    signed = size - (1 << 64) if size >> 63 else size
    return address.decode(), address_type, signed, etag.decode()


def _length(data: bytes, at: int) -> tuple[int, int]:
    value, at = get_uvarint(data, at, len(data))
    if value > _LENGTH_MAX:
        raise ValueError("counts no bytes")
    return value, at
