"""Copies through this process, for stores in its memory or on its disks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.storage.model import ObjectInfo, ObjectReader, ObjectWriter
from dredge.storage.undo import check_source


@dataclass(frozen=True, slots=True)
class StreamedCopier:
    """See `dredge.storage.undo.ObjectCopier`.

    Attributes:
        source: copied from.
        target: copied to.
    """

    source: ObjectReader
    target: ObjectWriter

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object, and read the copy."""
        sent = hashlib.sha256()
        with self.source.open_read(key) as opened:
            check_source(key, opened.info.size, opened.info.etag, size, etag)
            written = self.target.put_stream(key, _hashing(opened, sent), if_absent)
        read = hashlib.sha256()
        with self.target.open_read(key) as copied:
            for _ in _hashing(copied, read):
                pass
        if opened.info.size != written.size or sent.digest() != read.digest():
            raise FormatError(f"{key!r} was not copied to {self.target.uri} as it is in {self.source.uri}")
        return written


def _hashing(chunks: Iterable[bytes], into: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        into.update(chunk)
        yield chunk
