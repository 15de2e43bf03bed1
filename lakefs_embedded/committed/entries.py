"""Entries, objects at paths of commits and staging areas; and the hashes that identify entries and commits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self, cast

from dredge.errors import FormatError
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ident import int64_bytes, string_bytes, string_map
from dredge.lakefs.files.ranges import Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """An object under a path.

    Attributes:
        address: where the bytes are; `address_type` says how to read it.
        address_type: relative to the storage namespace, full, or unknown (old entries).
        etag: checksum without quotes; the hex MD5 of the content for plain uploads.
        last_modified: aware UTC; may be supplied by the uploader, so it does not prove an age.
        nanoseconds: the part of `last_modified` below a microsecond, 0 to 999.
    """

    address: str
    address_type: AddressType = AddressType.RELATIVE
    size: int = 0
    etag: str = ""
    last_modified: datetime = _EPOCH
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    nanoseconds: int = 0

    def encode(self) -> bytes:
        """Encode the message, with metadata in key order, so equal entries have equal bytes."""
        stamp = messages.to_timestamp(self.last_modified)
        stamp.nanos += self.nanoseconds
        return messages.encode(
            messages.Entry(
                address=self.address,
                last_modified=stamp,
                size=self.size,
                e_tag=self.etag,
                metadata=self.metadata,
                address_type=cast("messages.AddressType", int(self.address_type)),
                content_type=self.content_type,
            )
        )

    @classmethod
    def decode(cls, data: bytes, name: str) -> Entry:
        """Read the message."""
        message = messages.decode(messages.Entry, data, name)
        try:
            address_type = AddressType(message.address_type)
        except ValueError as error:
            raise FormatError(f"{name}: address type {message.address_type} is unknown") from error
        return cls(
            address=message.address,
            address_type=address_type,
            size=message.size,
            etag=message.e_tag,
            last_modified=messages.from_timestamp(message.last_modified),
            metadata=dict(message.metadata),
            content_type=message.content_type,
            nanoseconds=message.last_modified.nanos % 1000,
        )

    def identity(self) -> bytes:
        """SHA-256 of the content, 32 bytes, without address and time.

        Source: lakeFS pkg/catalog/entry.go
        """
        parts = Ident().int64(self.size).string(self.etag).string_map(self.metadata)
        if self.content_type:
            parts.string(self.content_type)
        return parts.digest()

    def value(self) -> Value:
        """The value of this entry's record in a range or a staging area."""
        return Value(self.identity(), self.encode())


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


def commit_id(
    committer: str,
    message: str,
    metarange_id: str,
    creation_date: datetime,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """Compute a commit's id, without version and generation, and with whole seconds of the date.

    Source: lakeFS pkg/graveler/graveler.go
    """
    parts = Ident().string("commit:v1").string(committer).string(message).string(metarange_id)
    parts.int64((creation_date - _EPOCH) // timedelta(seconds=1)).string_map(metadata)
    return parts.embedded(Ident().strings(parents)).hexdigest()
