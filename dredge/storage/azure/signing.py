"""URLs with a SAS token, for others and for the service itself when it reads what it copies.

With an account's key they are signed by it, with an identity by a user delegation key, which the service is asked for
once an hour: as lakeFS does. A SAS token signs nothing: handing it on would give more than one object away.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from dredge.errors import ConfigError
from dredge.storage.azure.clients import credential_of, endpoint_of, service_client
from dredge.storage.azure.errors import translated
from dredge.storage.azure.uris import container_of
from dredge.storage.options import StorageOptions
from dredge.storage.signed_urls import attachment

_SKEW = timedelta(minutes=5)
_DELEGATED = timedelta(hours=2)
_keys: dict[tuple[int, StorageOptions, str], tuple[Any, datetime]] = {}


def signed_url(
    options: StorageOptions,
    url: str,
    name: str,
    expires_seconds: int,
    rights: str,
    filename: str = "",
    version: str = "",
) -> str:
    """Sign the URL of a blob.

    Args:
        options: account and credentials.
        url: of the container.
        name: whole name of the blob.
        expires_seconds: how long the URL is valid.
        rights: of the token, such as "r".
        filename: name under which browsers save the blob; "" leaves that to them.
        version: id of a version of it; "" for the current one.

    Raises:
        ConfigError: the credentials cannot sign.
    """
    from azure.storage.blob import generate_blob_sas

    container = container_of(url)
    expires = datetime.now(UTC) + timedelta(seconds=expires_seconds)
    endpoint = endpoint_of(container, options.azure)
    token = generate_blob_sas(
        container.account,
        container.name,
        name,
        permission=rights,
        expiry=expires,
        protocol="https" if endpoint.startswith("https:") else None,
        content_disposition=attachment(filename) if filename else None,
        version_id=version or None,
        **_signer(options, url, expires),
    )
    return f"{endpoint}/{container.name}/{quote(name, safe='~/')}?{_of_version(version)}{token}"


def _of_version(version: str) -> str:
    return f"versionid={quote(version, safe='')}&" if version else ""


def _signer(options: StorageOptions, url: str, expires: datetime) -> dict[str, Any]:
    container = container_of(url)
    if options.azure.account == container.account:
        if options.azure.key:
            return {"account_key": options.azure.key}
        if options.azure.sas_token:
            raise ConfigError(
                f"URLs for {container.url} cannot be signed with a SAS token; give the account's key or an identity"
            )
    return {"user_delegation_key": _delegation_key(options, url, expires)}


def _delegation_key(options: StorageOptions, url: str, expires: datetime) -> Any:
    held = os.getpid(), options, url
    found = _keys.get(held)
    if found is None or found[1] < expires:
        until = max(expires, datetime.now(UTC)) + _DELEGATED
        with translated(f"asking for a key to sign URLs of {url}"), service_client(options, url) as service:
            found = service.get_user_delegation_key(datetime.now(UTC) - _SKEW, until), until
        _keys[held] = found
    return found[0]


def source_access(
    options: StorageOptions, url: str, name: str, seconds: int, version: str = ""
) -> tuple[str, dict[str, str]]:
    """How the service is allowed to read a blob that it copies.

    Args:
        options: account and credentials.
        url: of the container.
        name: whole name of the blob.
        seconds: how long the copy may take.
        version: id of a version of the blob; "" for the current one.

    Returns:
        URL of the source, and arguments of the SDK's call.
    """
    container = container_of(url)
    endpoint = endpoint_of(container, options.azure)
    plain = f"{endpoint}/{container.name}/{quote(name, safe='~/')}"
    if options.azure.account == container.account:
        if options.azure.key:
            return signed_url(options, url, name, seconds, "r", version=version), {}
        if options.azure.sas_token:
            return f"{plain}?{_of_version(version)}{options.azure.sas_token}", {}
    token = credential_of(container, options.azure).get_token("https://storage.azure.com/.default").token
    if version:
        plain = f"{plain}?{_of_version(version).rstrip('&')}"
    return plain, {"source_authorization": f"Bearer {token}"}
