"""Hashes of parts in lakeFS's canonical encoding (`dredge.lakefs.files.ident`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Self

from dredge.lakefs.files.ident import int64_bytes, string_bytes, string_map


class Ident:
    """A SHA-256 under construction; each method adds a part and returns the builder."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def raw(self, value: bytes) -> Self:
        """Add bytes."""
        self._hash.update(b"\x00" + int64_bytes(len(value)) + value)
        return self

    def string(self, value: str | bytes) -> Self:
        """Add a string."""
        self._hash.update(string_bytes(value))
        return self

    def int64(self, value: int) -> Self:
        """Add a signed 64-bit integer."""
        self._hash.update(int64_bytes(value))
        return self

    def strings(self, values: Sequence[str]) -> Self:
        """Add a list of strings; their order matters."""
        self._hash.update(b"\x03" + int64_bytes(len(values)) + b"".join(map(string_bytes, values)))
        return self

    def string_map(self, values: Mapping[str, str] | Mapping[str, bytes]) -> Self:
        """Add a map; the order of its items does not matter."""
        self._hash.update(string_map(values))
        return self

    def embedded(self, other: Ident) -> Self:
        """Add the hash of a separately hashed value."""
        self._hash.update(b"\x05")
        return self.raw(other.digest())

    def digest(self) -> bytes:
        """The SHA-256 of the parts so far, 32 bytes."""
        return self._hash.digest()

    def hexdigest(self) -> str:
        """The SHA-256 of the parts so far, 64 lowercase hex digits."""
        return self._hash.hexdigest()
