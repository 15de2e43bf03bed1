"""Azure Blob Storage."""

from __future__ import annotations

from dredge.storage.azure.clients import require
from dredge.storage.azure.copying import AzureCopier
from dredge.storage.azure.deleting import AzureDeleter
from dredge.storage.azure.store import AzureReader, AzureWriter
from dredge.storage.azure.uris import container_of
from dredge.storage.azure.versions import AzureMarkerDeleter, AzureVersionDeleter, AzureVersions
from dredge.storage.location import Location
from dredge.storage.options import StorageOptions

require()


def reader(location: Location, options: StorageOptions) -> AzureReader:
    """Open for reading."""
    return AzureReader(location, options)


def writer(location: Location, options: StorageOptions) -> AzureWriter:
    """Open for reading and writing."""
    return AzureWriter(location, options)


def deleter(location: Location, options: StorageOptions) -> AzureDeleter:
    """Open for deleting."""
    return AzureDeleter(location, options)


def copier(source: Location, target: Location, options: StorageOptions) -> AzureCopier | None:
    """Open a way from one folder into another of the same account."""
    same = container_of(source.bucket).endpoint == container_of(target.bucket).endpoint
    return AzureCopier(source, target, options) if same else None


def versions(location: Location, options: StorageOptions) -> AzureVersions:
    """Open for looking at what the account keeps."""
    return AzureVersions(location, options)


def version_deleter(location: Location, options: StorageOptions) -> AzureVersionDeleter:
    """Open for deleting versions."""
    return AzureVersionDeleter(location, options)


def marker_deleter(location: Location, options: StorageOptions) -> AzureMarkerDeleter:
    """Open for bringing back what is below a marker."""
    return AzureMarkerDeleter(location, options)
