"""The canonical form in which lakeFS hashes things: identities of entries, ids of commits and tables.

    part      type byte, then
    bytes     00  int64(length)  the bytes
    string    01  int64(length)  the UTF-8 bytes
    int64     02  08  eight bytes, big endian      (a length is written in this form, type byte and all)
    strings   03  int64(number)  each as a string
    map       04  int64(number)  key and value of each as strings, keys in byte order
    embedded  05  the SHA-256 of the embedded thing, as bytes

An `Ident` collects parts in order and gives the SHA-256 of all. Texts may be given as raw bytes, since a
server hashes whatever bytes its strings hold.

Source: lakeFS pkg/ident/ident.go
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Self

_INT = struct.Struct(">BBq")
_EMPTY_MAP = b"\x04" + _INT.pack(2, 8, 0)


class Ident:
    """A hash being built; every method adds one part and gives the builder back."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def raw(self, value: bytes) -> Self:
        """Add bytes."""
        self._hash.update(b"\x00" + _int64(len(value)) + value)
        return self

    def string(self, value: str | bytes) -> Self:
        """Add a text."""
        self._hash.update(_string(value))
        return self

    def int64(self, value: int) -> Self:
        """Add a number that fits 64 bits with sign."""
        self._hash.update(_int64(value))
        return self

    def strings(self, values: Sequence[str]) -> Self:
        """Add a list of texts; their order counts."""
        self._hash.update(b"\x03" + _int64(len(values)) + b"".join(map(_string, values)))
        return self

    def string_map(self, values: Mapping[str, str] | Mapping[str, bytes]) -> Self:
        """Add a map; the order of its items does not count."""
        self._hash.update(string_map(values))
        return self

    def embedded(self, other: Ident) -> Self:
        """Add the hash of something that has an identity of its own."""
        self._hash.update(b"\x05")
        return self.raw(other.digest())

    def digest(self) -> bytes:
        """The SHA-256 of the parts so far, 32 bytes."""
        return self._hash.digest()

    def hexdigest(self) -> str:
        """The SHA-256 of the parts so far, 64 lowercase hex digits."""
        return self._hash.hexdigest()


def string_map(values: Mapping[str, str] | Mapping[str, bytes]) -> bytes:
    """The bytes that a map adds to a hash."""
    if not values:
        return _EMPTY_MAP
    items = sorted((key.encode(), value) for key, value in values.items())
    return b"\x04" + _int64(len(items)) + b"".join(_string(key) + _string(value) for key, value in items)


def _int64(value: int) -> bytes:
    return _INT.pack(2, 8, value)


def _string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return b"\x01" + _int64(len(raw)) + raw
