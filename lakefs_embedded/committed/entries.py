"""Entries, objects at paths of commits and staging areas; and the hashes that identify entries and commits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

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
        content = int64_bytes(self.size) + string_bytes(self.etag) + string_map(self.metadata)
        if self.content_type:
            content += string_bytes(self.content_type)
        return hashlib.sha256(content).digest()

    def value(self) -> Value:
        """The value of this entry's record in a range or a staging area."""
        return Value(self.identity(), self.encode())


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
    content = b"".join(map(string_bytes, ("commit:v1", committer, message, metarange_id)))
    content += int64_bytes((creation_date - _EPOCH) // timedelta(seconds=1)) + string_map(metadata)
    above = b"\x03" + int64_bytes(len(parents)) + b"".join(map(string_bytes, parents))
    digest = hashlib.sha256(above).digest()
    return hashlib.sha256(content + b"\x05\x00" + int64_bytes(len(digest)) + digest).hexdigest()
