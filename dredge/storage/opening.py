"""Opens a URI for reading, for writing, or for deleting."""

from __future__ import annotations

from dredge.storage.location import parse_uri
from dredge.storage.model import ObjectDeleter, ObjectReader, ObjectWriter
from dredge.storage.options import StorageOptions


def open_reader(uri: str, options: StorageOptions | None = None) -> ObjectReader:
    """Open a store for reading; the object has no method that changes anything.

    Nothing is connected until the first call, so opening is cheap, safe before a fork, and says nothing about
    whether the store exists. Readers, writers and deleters can be pickled.

    Args:
        uri: see `location.parse_uri`.
        options: None reads this process's environment.
    """
    options = options or StorageOptions.from_env()
    location = parse_uri(uri, options)
    if location.driver == "local":
        from dredge.storage.local.store import LocalReader

        return LocalReader(location)
    if location.driver == "s3":
        from dredge.storage.s3.store import S3Reader

        return S3Reader(location, options)
    if location.driver == "memory":
        from dredge.storage.memory import MemoryReader

        return MemoryReader(location)
    from dredge.storage.remote import RemoteReader

    return RemoteReader(location)


def open_writer(uri: str, options: StorageOptions | None = None) -> ObjectWriter:
    """Open a store for reading and writing; the object cannot delete. Arguments as for `open_reader`."""
    options = options or StorageOptions.from_env()
    location = parse_uri(uri, options)
    if location.driver == "local":
        from dredge.storage.local.store import LocalWriter

        return LocalWriter(location)
    if location.driver == "s3":
        from dredge.storage.s3.store import S3Writer

        return S3Writer(location, options)
    if location.driver == "memory":
        from dredge.storage.memory import MemoryWriter

        return MemoryWriter(location)
    from dredge.storage.remote import RemoteWriter

    return RemoteWriter(location)


def open_deleter(uri: str, options: StorageOptions | None = None) -> ObjectDeleter:
    """Open a store for deleting and nothing else. Only the sweep and the trash cleaner may call this."""
    options = options or StorageOptions.from_env()
    location = parse_uri(uri, options)
    if location.driver == "local":
        from dredge.storage.local.store import LocalDeleter

        return LocalDeleter(location)
    if location.driver == "s3":
        from dredge.storage.s3.deleting import S3Deleter

        return S3Deleter(location, options)
    if location.driver == "memory":
        from dredge.storage.memory import MemoryDeleter

        return MemoryDeleter(location)
    from dredge.storage.remote import RemoteDeleter

    return RemoteDeleter(location)
