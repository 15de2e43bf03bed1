"""S3, and what speaks like it."""

from __future__ import annotations

from dredge.storage.location import Location
from dredge.storage.options import StorageOptions
from dredge.storage.s3.buckets import check_bucket
from dredge.storage.s3.copying import S3Copier
from dredge.storage.s3.deleting import S3Deleter
from dredge.storage.s3.store import S3Reader, S3Writer
from dredge.storage.s3.versions import S3VersionDeleter, S3Versions


def reader(location: Location, options: StorageOptions) -> S3Reader:
    """Open for reading."""
    check_bucket(location.bucket)
    return S3Reader(location, options)


def writer(location: Location, options: StorageOptions) -> S3Writer:
    """Open for reading and writing."""
    check_bucket(location.bucket)
    return S3Writer(location, options)


def deleter(location: Location, options: StorageOptions) -> S3Deleter:
    """Open for deleting."""
    check_bucket(location.bucket)
    return S3Deleter(location, options)


def copier(source: Location, target: Location, options: StorageOptions) -> S3Copier:
    """Open a way from one folder into another."""
    check_bucket(source.bucket)
    check_bucket(target.bucket)
    return S3Copier(source, target, options)


def versions(location: Location, options: StorageOptions) -> S3Versions:
    """Open for looking at versions."""
    check_bucket(location.bucket)
    return S3Versions(location, options)


def version_deleter(location: Location, options: StorageOptions) -> S3VersionDeleter:
    """Open for deleting versions."""
    check_bucket(location.bucket)
    return S3VersionDeleter(location, options)


marker_deleter = version_deleter
