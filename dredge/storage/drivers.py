"""The kinds of stores behind `dredge.storage.opening`.

The classes of a kind are loaded when a URI of the kind is opened, so an installation loads only the clients that it
uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dredge.storage.location import Location
from dredge.storage.model import ObjectDeleter, ObjectReader, ObjectWriter
from dredge.storage.options import StorageOptions
from dredge.storage.undo import NoVersions, ObjectCopier, StreamedCopier, VersionDeleter, VersionReader

type _Open[T] = Callable[[Location, StorageOptions], T]


@dataclass(frozen=True, slots=True)
class Driver:
    """The classes of one kind of store. They connect at their first call, not when they are opened.

    Attributes:
        copier: from one folder to another; gives None if the store cannot copy between them.
        version_deleter: None for stores without versions, like `marker_deleter`.
    """

    reader: _Open[ObjectReader]
    writer: _Open[ObjectWriter]
    deleter: _Open[ObjectDeleter]
    copier: Callable[[Location, Location, StorageOptions], ObjectCopier | None]
    versions: _Open[VersionReader]
    version_deleter: _Open[VersionDeleter] | None = None
    marker_deleter: _Open[VersionDeleter] | None = None


def _local() -> Driver:
    from dredge.storage.local.store import LocalDeleter, LocalReader, LocalWriter

    return Driver(
        reader=lambda location, _: LocalReader(location),
        writer=lambda location, _: LocalWriter(location),
        deleter=lambda location, _: LocalDeleter(location),
        copier=lambda source, target, _: StreamedCopier(LocalReader(source), LocalWriter(target)),
        versions=lambda _location, _options: NoVersions(),
    )


def _s3() -> Driver:
    from dredge.storage.s3.deleting import S3Deleter, S3VersionDeleter
    from dredge.storage.s3.store import S3Reader, S3Writer
    from dredge.storage.s3.undo import S3Copier, S3Versions

    return Driver(S3Reader, S3Writer, S3Deleter, S3Copier, S3Versions, S3VersionDeleter, S3VersionDeleter)


def _gcs() -> Driver:
    from dredge.storage.gcs.deleting import GcsDeleter, GcsVersionDeleter
    from dredge.storage.gcs.store import GcsReader, GcsWriter
    from dredge.storage.gcs.undo import GcsCopier, GcsMarkerDeleter, GcsVersions

    return Driver(
        GcsReader, GcsWriter, GcsDeleter, GcsCopier, GcsVersions, GcsVersionDeleter, GcsMarkerDeleter
    )


def _azure() -> Driver:
    from dredge.storage.azure.clients import require

    require()
    from dredge.storage.azure.deleting import AzureDeleter, AzureVersionDeleter
    from dredge.storage.azure.store import AzureReader, AzureWriter
    from dredge.storage.azure.undo import AzureMarkerDeleter, AzureVersions, copier_inside

    return Driver(
        AzureReader,
        AzureWriter,
        AzureDeleter,
        copier_inside,
        AzureVersions,
        AzureVersionDeleter,
        AzureMarkerDeleter,
    )


KINDS: dict[str, Callable[[], Driver]] = {"local": _local, "s3": _s3, "gcs": _gcs, "azure": _azure}


def driver_of(location: Location) -> Driver:
    """The driver of a location."""
    if location.driver == "s3":
        from dredge.storage.s3.access import check_bucket

        check_bucket(location.bucket)
    return KINDS[location.driver]()
