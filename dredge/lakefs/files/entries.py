"""The values of records in tables."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files.sstable.layout import get_uvarint, put_uvarint

PART_SIZE_MAX = 640 << 16


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a table's record: an identity, and data.

        svarint(length of identity) · identity · svarint(length of data) · data     (the rest is ignored)

    The lengths are zig-zag numbers: 32 is the byte 40, 64 the bytes 80 01. Identity is 32 raw bytes in a range, and the
    range's id as 64 ASCII characters in a metarange. Source: lakeFS pkg/graveler/committed/value.go

    Attributes:
        identity: equal for equal content, whatever the address and time.
        data: an encoded entry, or an encoded RangeData.
    """

    identity: bytes
    data: bytes

    def encode(self) -> bytes:
        """Encode the value as a table holds it. Raises ValueError if a part is larger than a server accepts."""
        if len(self.identity) > PART_SIZE_MAX or len(self.data) > PART_SIZE_MAX:
            raise ValueError(f"identity and data are limited to {PART_SIZE_MAX} bytes each")
        return b"".join(
            (put_uvarint(len(self.identity) << 1), self.identity, put_uvarint(len(self.data) << 1), self.data)
        )

    @classmethod
    def decode(cls, raw: bytes, name: str) -> Value:
        """Read it from a table."""
        try:
            identity, at = _part(raw, 0)
            data, _ = _part(raw, at)
        except ValueError as error:
            raise FormatError(f"{name}: value {raw[:40].hex()}: {error}") from error
        return cls(identity, data)


def _part(raw: bytes, at: int) -> tuple[bytes, int]:
    zigzag, at = get_uvarint(raw, at, len(raw))
    length = zigzag >> 1
    if zigzag & 1 or length > PART_SIZE_MAX or at + length > len(raw):
        raise ValueError(f"a part's length does not fit its {len(raw)} bytes")
    return raw[at : at + length], at + length
