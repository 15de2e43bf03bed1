"""The canonical encoding for lakeFS's hashes: for identities of entries, and ids of commits and tables.

    part      type byte, then
    bytes     00  int64(length)  the bytes
    string    01  int64(length)  the UTF-8 bytes
    int64     02  08  eight bytes, big endian      (a length is written in this form, type byte and all)
    strings   03  int64(number)  each as a string
    map       04  int64(number)  key and value of each as strings, keys in byte order
    embedded  05  the SHA-256 of the embedded value, as bytes

Strings may be given as raw bytes, since a server hashes whatever bytes its strings hold.

Source: lakeFS pkg/ident/ident.go
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping

_INT = struct.Struct(">BBq")
_EMPTY_MAP = b"\x04" + _INT.pack(2, 8, 0)


def string_map(values: Mapping[str, str] | Mapping[str, bytes]) -> bytes:
    """Encode a map for a hash."""
    if not values:
        return _EMPTY_MAP
    items = sorted((key.encode(), value) for key, value in values.items())
    return (
        b"\x04"
        + int64_bytes(len(items))
        + b"".join(string_bytes(key) + string_bytes(value) for key, value in items)
    )


def int64_bytes(value: int) -> bytes:
    """Encode a number for a hash."""
    return _INT.pack(2, 8, value)


def string_bytes(value: str | bytes) -> bytes:
    """Encode a string for a hash."""
    raw = value.encode() if isinstance(value, str) else value
    return b"\x01" + int64_bytes(len(raw)) + raw


class TableHash:
    """Computes the id of a table: SHA-256 over its records and the properties known before the table is closed.

        for each record, key then value:  decimal length · the bytes · "|"
        then the properties as a string map: {type: ranges} or {type: metaranges}, and those of a dump

    The id does not depend on blocks and compression, so equal records have equal ids in any layout.
    Source: lakeFS pkg/graveler/sstable/writer.go
    """

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, key: bytes, value: bytes) -> None:
        """Add the next record."""
        self.add_encoded(encode_records([(key, value)]))

    def add_encoded(self, records: bytes) -> None:
        """Add the next records, encoded by `encode_records`."""
        self._hash.update(records)

    def finish(self, properties: Mapping[str, str] | Mapping[str, bytes]) -> str:
        """Add the properties and return the id, 64 lowercase hex digits. `properties` are `type` and those of a refs
        dump, without properties computed when the table is closed."""
        self._hash.update(string_map(properties))
        return self._hash.hexdigest()


def encode_records(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode keys and values of successive records for a table's hash."""
    return b"".join([b"%d%b|%d%b|" % (len(key), key, len(value), value) for key, value in records])
