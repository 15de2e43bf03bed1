"""The kinds of stores behind `dredge.storage.opening`: one module each, loaded when a URI of its kind is opened.

A module has the functions of `Driver`, so that an installation loads the clients of the stores that it uses only.
Which schemes belong to a kind says `dredge.storage.schemes`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from dredge.storage.location import Location
from dredge.storage.model import ObjectDeleter, ObjectReader, ObjectWriter
from dredge.storage.options import StorageOptions
from dredge.storage.undo import ObjectCopier, VersionDeleter, VersionReader

#: The module of each kind of store.
MODULES: dict[str, str] = {kind: f"{__name__}.{kind}" for kind in ("local", "s3", "gcs", "azure")}


class Driver(Protocol):
    """Opens the places of one kind of store; nothing is connected until the first call."""

    def reader(self, location: Location, options: StorageOptions) -> ObjectReader:
        """Open for reading."""

    def writer(self, location: Location, options: StorageOptions) -> ObjectWriter:
        """Open for reading and writing."""

    def deleter(self, location: Location, options: StorageOptions) -> ObjectDeleter:
        """Open for deleting."""

    def copier(self, source: Location, target: Location, options: StorageOptions) -> ObjectCopier | None:
        """Open a way from one folder into another; None when no copy leads there inside the store."""

    def versions(self, location: Location, options: StorageOptions) -> VersionReader:
        """Open for looking at versions."""

    def version_deleter(self, location: Location, options: StorageOptions) -> VersionDeleter | None:
        """Open for deleting versions; None when this kind of store keeps none."""

    def marker_deleter(self, location: Location, options: StorageOptions) -> VersionDeleter | None:
        """Open for taking away delete markers, or what stands for them; None when the store keeps no versions."""


def driver_of(location: Location) -> Driver:
    """Load the driver of a place."""
    return cast("Driver", import_module(MODULES[location.driver]))
