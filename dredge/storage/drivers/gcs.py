"""Google Cloud Storage."""

from __future__ import annotations

from dredge.storage.gcs.copying import GcsCopier
from dredge.storage.gcs.deleting import GcsDeleter
from dredge.storage.gcs.store import GcsReader, GcsWriter
from dredge.storage.gcs.versions import GcsMarkerDeleter, GcsVersionDeleter, GcsVersions
from dredge.storage.location import Location
from dredge.storage.options import StorageOptions


def reader(location: Location, options: StorageOptions) -> GcsReader:
    """Open for reading."""
    return GcsReader(location, options)


def writer(location: Location, options: StorageOptions) -> GcsWriter:
    """Open for reading and writing."""
    return GcsWriter(location, options)


def deleter(location: Location, options: StorageOptions) -> GcsDeleter:
    """Open for deleting."""
    return GcsDeleter(location, options)


def copier(source: Location, target: Location, options: StorageOptions) -> GcsCopier:
    """Open a way from one folder into another."""
    return GcsCopier(source, target, options)


def versions(location: Location, options: StorageOptions) -> GcsVersions:
    """Open for looking at versions."""
    return GcsVersions(location, options)


def version_deleter(location: Location, options: StorageOptions) -> GcsVersionDeleter:
    """Open for deleting versions."""
    return GcsVersionDeleter(location, options)


def marker_deleter(location: Location, options: StorageOptions) -> GcsMarkerDeleter:
    """Open for taking back deletions."""
    return GcsMarkerDeleter(location, options)
