"""The only module that imports the icechunk package: opens repositories, and expires by the library's rule."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from dredge.errors import RefusedError, UnavailableError
from dredge.icechunk.history import Ref
from dredge.process import need
from dredge.storage import StorageOptions
from dredge.storage.location import Location, parse_uri
from dredge.storage.options import GcsOptions
from dredge.storage.s3.access import CREDENTIALS_KEPT, access_to

if TYPE_CHECKING:
    import icechunk


def open_library(uri: str, options: StorageOptions | None = None) -> icechunk.Repository:
    """Open a repository with the library; UnavailableError if it cannot be opened."""
    need("icechunk", "icechunk")
    import icechunk

    storage = library_storage(uri, options or StorageOptions.from_env())
    try:
        return icechunk.Repository.open(storage)
    except icechunk.IcechunkError as error:
        raise UnavailableError(f"{uri}: Icechunk cannot open the repository: {error}") from None


def library_storage(uri: str, options: StorageOptions) -> Any:
    """Return the library's storage for a URI, with Dredge's options."""
    import icechunk

    icechunk.set_logs_filter("error")
    location = parse_uri(uri, options)
    if location.driver == "local":
        return icechunk.local_filesystem_storage(location.root)
    if location.driver == "s3":
        access = access_to(options, location.bucket)
        return icechunk.s3_storage(
            bucket=location.bucket,
            prefix=location.root or None,
            region=access.region,
            endpoint_url=access.endpoint_url,
            allow_http=access.url.startswith("http://"),
            anonymous=access.is_anonymous or None,
            get_credentials=None if access.is_anonymous else partial(_s3_keys, options, location.bucket),
            force_path_style=access.path_style,
        )
    if location.driver == "gcs":
        return _gcs_storage(location, options.gcs)
    return _azure_storage(location, options)


def _s3_keys(options: StorageOptions, bucket: str) -> Any:
    import icechunk

    keys = access_to(options, bucket).session.get_credentials().get_frozen_credentials()
    return icechunk.S3StaticCredentials(
        keys.access_key, keys.secret_key, keys.token, datetime.now(UTC) + CREDENTIALS_KEPT
    )


def _gcs_storage(location: Location, options: GcsOptions) -> Any:
    import icechunk

    key, file = options.credentials_json, options.credentials_file
    return icechunk.gcs_storage(
        bucket=location.bucket,
        prefix=location.root or None,
        service_account_key=key,
        application_credentials=None if key else file,
        anonymous=True if options.is_anonymous else None,
        from_env=None if key or file or options.is_anonymous else True,
        config={"google_base_url": options.endpoint} if options.endpoint_url else None,
    )


def _azure_storage(location: Location, options: StorageOptions) -> Any:
    import icechunk

    from dredge.storage.azure.clients import access_to as azure_access_to

    access = azure_access_to(options.azure, location.bucket)
    return icechunk.azure_storage(
        account=access.account,
        container=access.container,
        prefix=location.root,
        access_key=access.key,
        sas_token=access.sas_token,
        bearer_token=access.bearer_token,
        from_env=False,
        config={
            "azure_storage_endpoint": access.endpoint,
            "azure_allow_http": str(access.endpoint.startswith("http://")).lower(),
        },
    )


def expire_with_library(
    repository: icechunk.Repository, threshold: datetime, *, delete_branches: bool, delete_tags: bool
) -> set[str]:
    """Expire with the library; returns the released ids. Raises RefusedError with the library's message."""
    import icechunk

    try:
        return repository.expire_snapshots(
            threshold, delete_expired_branches=delete_branches, delete_expired_tags=delete_tags
        )
    except icechunk.IcechunkError as error:
        raise RefusedError(f"Icechunk did not expire: {error}") from None


def delete_ref(repository: icechunk.Repository, ref: Ref) -> None:
    """Delete a branch or a tag."""
    import icechunk

    try:
        if ref.kind == "tag":
            repository.delete_tag(ref.name)
        else:
            repository.delete_branch(ref.name)
    except icechunk.IcechunkError as error:
        raise RefusedError(f"{ref.label} could not be deleted: {error}") from None
