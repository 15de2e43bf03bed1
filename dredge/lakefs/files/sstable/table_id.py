"""The id of a table: SHA-256 over its records and the properties known before it is closed.

    for each record, key then value:  decimal length · the bytes · "|"
    then the properties as a string map (see `ident`): {type: ranges} or {type: metaranges}, and those of a dump

Blocks and compression do not enter it, so equal records have equal ids, whatever their layout.

Source: lakeFS pkg/graveler/sstable/writer.go
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from dredge.lakefs.files import ident


class TableHash:
    """The id of a table under construction."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, key: bytes, value: bytes) -> None:
        """Add the next record."""
        self._hash.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))

    def finish(self, properties: Mapping[str, str] | Mapping[str, bytes]) -> str:
        """Add the properties and return the id.

        Args:
            properties: `type`, and those of a refs dump; not the ones computed when the table is closed.

        Returns:
            64 lowercase hex digits.
        """
        self._hash.update(ident.string_map(properties))
        return self._hash.hexdigest()


def table_id(
    records: Iterable[tuple[bytes, bytes]], properties: Mapping[str, str] | Mapping[str, bytes]
) -> str:
    """The id of a table.

    Args:
        records: keys and encoded values, in order.
        properties: `type`, and those of a refs dump.
    """
    table_hash = TableHash()
    for key, value in records:
        table_hash.add(key, value)
    return table_hash.finish(properties)
