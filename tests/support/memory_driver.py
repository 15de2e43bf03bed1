"""The driver of stores in memory (`memory_store.py`)."""

from dredge.storage.opening import Driver
from dredge.storage.undo import StreamedCopier
from tests.support.memory_store import (
    MemoryDeleter,
    MemoryReader,
    MemoryVersionDeleter,
    MemoryVersions,
    MemoryWriter,
)


def driver() -> Driver:
    """The present classes of this module; a simulation replaces some."""
    return Driver(
        reader=lambda location, _: MemoryReader(location),
        writer=lambda location, _: MemoryWriter(location),
        deleter=lambda location, _: MemoryDeleter(location),
        copier=lambda source, target, _: StreamedCopier(MemoryReader(source), MemoryWriter(target)),
        versions=lambda location, _: MemoryVersions(location),
        version_deleter=lambda location, _: MemoryVersionDeleter(location),
        marker_deleter=lambda location, _: MemoryVersionDeleter(location),
    )
