"""One object store of each kind, for the tests of the drivers."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.storage import ObjectDeleter, ObjectReader, ObjectWriter


@dataclass
class Stores:
    """A folder of a store: its three clients, and its kind."""

    kind: str
    uri: str
    reader: ObjectReader
    writer: ObjectWriter
    deleter: ObjectDeleter

    def keys(self, prefix: str = "", **bounds: str) -> list[str]:
        return [key for batch in self.reader.list(prefix, **bounds) for key in batch.column(0).to_pylist()]
