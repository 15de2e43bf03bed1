"""Folders of this machine."""

from __future__ import annotations

from dredge.storage.local.store import LocalDeleter, LocalReader, LocalWriter
from dredge.storage.location import Location
from dredge.storage.options import StorageOptions
from dredge.storage.streamed_copy import StreamedCopier
from dredge.storage.undo import NoVersions


def reader(location: Location, options: StorageOptions) -> LocalReader:
    """Open for reading."""
    return LocalReader(location)


def writer(location: Location, options: StorageOptions) -> LocalWriter:
    """Open for reading and writing."""
    return LocalWriter(location)


def deleter(location: Location, options: StorageOptions) -> LocalDeleter:
    """Open for deleting."""
    return LocalDeleter(location)


def copier(source: Location, target: Location, options: StorageOptions) -> StreamedCopier:
    """Open a way from one folder into another."""
    return StreamedCopier(LocalReader(source), LocalWriter(target))


def versions(location: Location, options: StorageOptions) -> NoVersions:
    """A folder keeps no versions."""
    return NoVersions()


def version_deleter(location: Location, options: StorageOptions) -> None:
    """A folder keeps no versions."""


marker_deleter = version_deleter
