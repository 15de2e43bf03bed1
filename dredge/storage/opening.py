"""Opens a URI for reading, writing or deleting; options for child processes.

The classes of a kind of store are loaded when a URI of the kind is opened, so an installation loads only the clients
that it uses.
"""

import os
from collections.abc import Callable

from msgspec import Struct

from dredge.errors import ConfigError
from dredge.storage import undo
from dredge.storage.location import Location, parse_uri
from dredge.storage.model import ObjectDeleter, ObjectReader, ObjectWriter
from dredge.storage.options import StorageOptions

type _Open[T] = Callable[[Location, StorageOptions], T]


class Driver(Struct, frozen=True):
    """The classes of one kind of store. They connect at their first call, not when they are opened."""

    reader: _Open[ObjectReader]
    writer: _Open[ObjectWriter]
    deleter: _Open[ObjectDeleter]
    # from one folder to another; gives None if the store cannot copy between them
    copier: Callable[[Location, Location, StorageOptions], undo.ObjectCopier | None]
    versions: _Open[undo.VersionReader]
    # None for stores without versions, like `marker_deleter`
    version_deleter: _Open[undo.VersionDeleter] | None = None
    marker_deleter: _Open[undo.VersionDeleter] | None = None


def _local() -> Driver:
    from dredge.storage.local.store import LocalDeleter, LocalReader, LocalWriter

    return Driver(
        reader=lambda location, _: LocalReader(location),
        writer=lambda location, _: LocalWriter(location),
        deleter=lambda location, _: LocalDeleter(location),
        copier=lambda source, target, _: undo.StreamedCopier(LocalReader(source), LocalWriter(target)),
        versions=lambda _location, _options: undo.VersionReader(),
    )


def _s3() -> Driver:
    from dredge.storage.s3.deleting import S3Copier, S3Deleter, S3VersionDeleter, S3Versions
    from dredge.storage.s3.store import S3Reader, S3Writer

    return Driver(S3Reader, S3Writer, S3Deleter, S3Copier, S3Versions, S3VersionDeleter, S3VersionDeleter)


def _gcs() -> Driver:
    from dredge.storage.gcs.deleting import (
        GcsCopier,
        GcsDeleter,
        GcsMarkerDeleter,
        GcsVersionDeleter,
        GcsVersions,
    )
    from dredge.storage.gcs.store import GcsReader, GcsWriter

    return Driver(
        GcsReader, GcsWriter, GcsDeleter, GcsCopier, GcsVersions, GcsVersionDeleter, GcsMarkerDeleter
    )


def _azure() -> Driver:
    from dredge.storage.azure.clients import require

    require()
    from dredge.storage.azure.deleting import (
        AzureDeleter,
        AzureMarkerDeleter,
        AzureVersionDeleter,
        AzureVersions,
        copier_inside,
    )
    from dredge.storage.azure.store import AzureReader, AzureWriter

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


def open_reader(uri: str, options: StorageOptions | None = None) -> ObjectReader:
    """Open a store for reading.

    The store connects at its first call, so opening is cheap, safe before a fork, and does not check that the store
    exists. Readers, writers and deleters can be pickled. `options`: None reads this process's environment."""
    driver, location, options = _driver(uri, options)
    return driver.reader(location, options)


def open_writer(uri: str, options: StorageOptions | None = None) -> ObjectWriter:
    """Open a store for reading and writing; arguments as for `open_reader`."""
    driver, location, options = _driver(uri, options)
    return driver.writer(location, options)


def open_deleter(uri: str, options: StorageOptions | None = None) -> ObjectDeleter:
    """Open a store for deleting. Only the sweeps and the cleaner of own files may call this."""
    driver, location, options = _driver(uri, options)
    return driver.deleter(location, options)


def open_copier(source: str, target: str, options: StorageOptions | None = None) -> undo.ObjectCopier:
    """Open two folders for copies from `source` to `target` under the same key."""
    options = options or StorageOptions.from_env()
    from_, to = parse_uri(source, options), parse_uri(target, options)
    driver, _ = driver_of(from_), driver_of(to)  # both check their buckets
    copier = driver.copier(from_, to, options) if from_.driver == to.driver else None
    if copier is None:
        raise ConfigError(f"nothing can be copied from {from_.uri} to {to.uri} inside a store")
    return copier


def open_versions(uri: str, options: StorageOptions | None = None) -> undo.VersionReader:
    """Open the versions of a store for reading; arguments as for `open_reader`."""
    driver, location, options = _driver(uri, options)
    return driver.versions(location, options)


def open_marker_remover(uri: str, options: StorageOptions | None = None) -> undo.MarkerRemover:
    """Open a store for removing delete markers. Only the restore may call this."""
    return undo.MarkerRemover(_named("markers", uri, options))


def open_old_version_deleter(uri: str, options: StorageOptions | None = None) -> undo.OldVersionDeleter:
    """Open a store for deleting versions that are not current. Only the purge may call this."""
    return undo.OldVersionDeleter(_named("versions", uri, options))


def open_exact_version_deleter(uri: str, options: StorageOptions | None = None) -> undo.ExactVersionDeleter:
    """Open a store for deleting exactly the given versions. Only `gc/metadata` may call this."""
    return undo.ExactVersionDeleter(_version_deleter("versions", uri, options))


def _driver(uri: str, options: StorageOptions | None) -> tuple[Driver, Location, StorageOptions]:
    options = options or StorageOptions.from_env()
    location = parse_uri(uri, options)
    return driver_of(location), location, options


def _named(kind: str, uri: str, options: StorageOptions | None) -> undo.NamedVersionDeleter:
    return undo.NamedVersionDeleter(
        _version_deleter(kind, uri, options), open_versions(uri, options).versioning
    )


def _version_deleter(kind: str, uri: str, options: StorageOptions | None) -> undo.VersionDeleter:
    driver, location, options = _driver(uri, options)
    open_deleter = driver.marker_deleter if kind == "markers" else driver.version_deleter
    if open_deleter is None:
        raise ConfigError(f"{location.uri} keeps no versions that Dredge could delete")
    return open_deleter(location, options)


def environment_of_child(options: StorageOptions) -> dict[str, str]:
    """The variables for `StorageOptions.from_env` in a child process, with secrets.

    They contain AWS's configuration of this machine, so that a child uses the same store. Credentials of the machine
    (a role) are not in them; each machine has its own.
    """
    if not _may_use_aws(options):
        return options.to_env()
    from dredge.storage.s3.resolving import for_another_process

    return for_another_process(options).to_env()


def _may_use_aws(options: StorageOptions) -> bool:
    # Reading AWS's configuration takes half a second.
    if any(name.startswith("AWS_") and value for name, value in os.environ.items()):
        return True
    plain = StorageOptions(
        local_base=options.local_base,
        delete_requests=options.delete_requests,
        azure=options.azure,
        gcs=options.gcs,
        unknown=options.unknown,
    )
    files = ("~/.aws/config", "~/.aws/credentials")
    return options != plain or any(os.path.exists(os.path.expanduser(file)) for file in files)
