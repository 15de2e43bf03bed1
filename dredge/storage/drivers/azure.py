"""Azure Blob Storage."""

from __future__ import annotations

from dredge.storage.location import Location
from dredge.storage.options import StorageOptions
from dredge.storage.remote import RemoteCopier, RemoteDeleter, RemoteReader, RemoteWriter
from dredge.storage.undo import NoVersions


def reader(location: Location, options: StorageOptions) -> RemoteReader:
    """Open for reading."""
    return RemoteReader(location)


def writer(location: Location, options: StorageOptions) -> RemoteWriter:
    """Open for reading and writing."""
    return RemoteWriter(location)


def deleter(location: Location, options: StorageOptions) -> RemoteDeleter:
    """Open for deleting."""
    return RemoteDeleter(location)


def copier(source: Location, target: Location, options: StorageOptions) -> RemoteCopier | None:
    """Open a way from one folder into another of the same container."""
    return RemoteCopier(source, target) if source.bucket == target.bucket else None


def versions(location: Location, options: StorageOptions) -> NoVersions:
    """The client shows no versions."""
    return NoVersions()


def version_deleter(location: Location, options: StorageOptions) -> None:
    """The client shows no versions."""


marker_deleter = version_deleter
