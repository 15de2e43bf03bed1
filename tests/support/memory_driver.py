"""Opens stores in memory (`memory_store.py`), as `dredge.storage.drivers` has it."""

from __future__ import annotations

from dredge.storage.location import Location
from dredge.storage.options import StorageOptions
from dredge.storage.streamed_copy import StreamedCopier
from tests.support.memory_store import (
    MemoryDeleter,
    MemoryReader,
    MemoryVersionDeleter,
    MemoryVersions,
    MemoryWriter,
)


def reader(location: Location, options: StorageOptions) -> MemoryReader:
    return MemoryReader(location)


def writer(location: Location, options: StorageOptions) -> MemoryWriter:
    """Open for reading and writing."""
    return MemoryWriter(location)


def deleter(location: Location, options: StorageOptions) -> MemoryDeleter:
    return MemoryDeleter(location)


def copier(source: Location, target: Location, options: StorageOptions) -> StreamedCopier:
    """Open a way from one folder into another."""
    return StreamedCopier(MemoryReader(source), MemoryWriter(target))


def versions(location: Location, options: StorageOptions) -> MemoryVersions:
    """Open for looking at versions."""
    return MemoryVersions(location)


def version_deleter(location: Location, options: StorageOptions) -> MemoryVersionDeleter:
    return MemoryVersionDeleter(location)


marker_deleter = version_deleter
