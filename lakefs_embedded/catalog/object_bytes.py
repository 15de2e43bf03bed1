"""The bytes of objects: written, copied, opened for reading."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from dredge.errors import NotFoundError
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from lakefs_embedded.catalog.entries import locate
from lakefs_embedded.catalog.model import Namespaces
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import DataNotFoundError

Content = bytes | BinaryIO | Iterable[bytes]
"""Uploaded content: the bytes, a file opened for reading, or chunks."""

_CHUNK_BYTES = 1 << 20


class ObjectBytes:
    """Reads and writes the bytes of entries."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    def locate(self, repository: Repository, entry: Entry) -> tuple[ObjectWriter, str]:
        """Find the store and the key of an entry's bytes."""
        objects = self._namespaces.of(repository).objects
        return locate(repository, entry, objects, self._namespaces.open)

    def write(self, repository: Repository, address: str, content: Content) -> tuple[str, int]:
        """Write bytes to an address of the repository's namespace. Returns their hex MD5 and number."""
        objects = self._namespaces.of(repository).objects
        if isinstance(content, bytes):
            objects.put(address, content)
            return hashlib.md5(content, usedforsecurity=False).hexdigest(), len(content)
        digest = hashlib.md5(usedforsecurity=False)
        size = 0

        def pass_on(chunks: Iterable[bytes]) -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        objects.put_stream(address, pass_on(_chunks(content)))
        return digest.hexdigest(), size

    def copy(self, repository: Repository, source: Entry, address: str) -> None:
        """Copy an entry's bytes to an address in the repository's namespace."""
        objects = self._namespaces.of(repository).objects
        holder, key = self.locate(repository, source)
        try:
            if holder is objects:
                objects.copy(key, address)
                return
            with holder.open_read(key) as stream:
                objects.put_stream(address, stream)
        except NotFoundError:
            raise DataNotFoundError from None


def _chunks(content: BinaryIO | Iterable[bytes]) -> Iterable[bytes]:
    if hasattr(content, "read"):
        return iter(lambda: content.read(_CHUNK_BYTES), b"")
    return content
