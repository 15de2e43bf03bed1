"""The Azure clients of this process: built when first needed, shared by all, rebuilt after a fork."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dredge.causes import UNUSABLE
from dredge.errors import ConfigError
from dredge.storage.azure.errors import translated
from dredge.storage.azure.options import AzureOptions
from dredge.storage.azure.uris import Container, container_of
from dredge.storage.https import mount
from dredge.storage.native import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.options import StorageOptions

if TYPE_CHECKING:
    from azure.storage.blob import BlobServiceClient, ContainerClient

PIECE_BYTES = 8 << 20
"""What a single request reads."""
_POOL_CONNECTIONS = 64
_READ_RETRIES = 5
# Whoever is handed a token of an identity may use it on every account, so only the service gets one.
_SERVICE = (
    ".core.windows.net",
    ".core.chinacloudapi.cn",
    ".core.usgovcloudapi.net",
    ".storage.azure.net",
)
_AUTHORITIES = {
    ".chinacloudapi.cn": "login.chinacloudapi.cn",
    ".usgovcloudapi.net": "login.microsoftonline.us",
}
_SCOPE = "https://storage.azure.com/.default"
_LOUD = ("azure.core.pipeline.policies.http_logging_policy", "azure.identity")


@dataclass(slots=True)
class _Clients:
    """What one process holds."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    containers: dict[tuple[StorageOptions, str, bool], ContainerClient] = field(default_factory=dict)
    identities: dict[tuple[AzureOptions, str], Any] = field(default_factory=dict)


_clients = _Clients()


def forget_clients() -> None:
    """Let clients be built anew. In a forked child the parent's sockets are not ours, and threads that the child lacks
    may hold the parent's locks.
    """
    global _clients
    _clients = _Clients()


os.register_at_fork(after_in_child=forget_clients)


def require() -> None:
    """Demand that the SDK is installed, and load it, one thread at a time: its modules import each other in circles, so
    that threads which begin at different ones see them half made.

    Raises:
        ConfigError: it is not; says what to install.
    """
    if not is_installed():
        raise ConfigError(
            "Azure Blob Storage needs azure-storage-blob and azure-identity: pip install 'dredge[azure]', here and"
            " where Spark's executors run. Nothing was touched."
        )
    with _clients.lock:
        import azure.identity
        import azure.storage.blob  # noqa: F401


def is_installed() -> bool:
    """Whether the extra `azure` is; imports none of it."""
    return all(_is_there(name) for name in ("azure.storage.blob", "azure.identity"))


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:  # not even the name before the last dot
        return False


def container_client(options: StorageOptions, url: str, retries: bool = True) -> ContainerClient:
    """The SDK's client of a container.

    Args:
        options: account, credentials, endpoint.
        url: of the container; see `Container.url`.
        retries: False for a client that reports throttling at once instead of waiting and trying again.
    """
    held = _clients
    with held.lock:
        client = held.containers.get((options, url, retries))
        if client is None:
            client = held.containers[options, url, retries] = _build(options, container_of(url), retries)
        return client


def service_client(options: StorageOptions, url: str) -> BlobServiceClient:
    """The SDK's client of the account that a container is in, for a few calls; close it.

    Args:
        options: account, credentials, endpoint.
        url: of the container.
    """
    from azure.storage.blob import BlobServiceClient

    container = container_of(url)
    return BlobServiceClient(
        endpoint_of(container, options.azure),
        credential_of(container, options.azure),
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retry_total=_READ_RETRIES,
    )


def endpoint_of(container: Container, options: AzureOptions) -> str:
    """Where requests for an account go: to the endpoint of the options, if that is the account's."""
    own = options.endpoint_url if options.account == container.account else None
    return (own or container.endpoint).rstrip("/")


def _build(options: StorageOptions, container: Container, retries: bool) -> ContainerClient:
    require()
    try:
        credential = credential_of(container, options.azure)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise UNUSABLE.error(f"credentials of Azure for the account {container.account}: {error}") from None
    import requests
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.blob import ContainerClient

    for name in _LOUD:  # at INFO they write some lines for each request
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    session = requests.Session()
    mount(session, _POOL_CONNECTIONS)
    limits: dict[str, Any] = {"connection_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    transport: Any = RequestsTransport(session=session, **limits)
    attempts = _READ_RETRIES if retries else 0
    return ContainerClient(
        endpoint_of(container, options.azure),
        container.name,
        credential=credential,
        transport=transport,
        max_single_get_size=PIECE_BYTES,
        max_chunk_get_size=PIECE_BYTES,
        retry_total=attempts,
        retry_connect=attempts,
        retry_read=attempts,
        retry_status=attempts,
        **limits,
    )


def credential_of(container: Container, options: AzureOptions) -> Any:
    """What requests for an account are signed with: its key or SAS token, or an identity.

    Raises:
        ConfigError: an identity's token would go to a host that is not known to be the service's.
    """
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

    if options.account == container.account:
        if options.key:
            return AzureNamedKeyCredential(container.account, options.key)
        if options.sas_token:
            return AzureSasCredential(options.sas_token)
    endpoint = urlsplit(endpoint_of(container, options))
    host = endpoint.hostname or ""
    named = options.account == container.account and options.endpoint_url is not None
    if endpoint.scheme != "https" or not (named or host.endswith(_SERVICE)):
        raise ConfigError(
            f"no key or SAS token for the account {container.account}, and {host or 'this host'} is none of Azure's:"
            " tokens of an identity are sent to the service only. Set AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_ENDPOINT"
            " (https) if it is. Nothing was sent."
        )
    return _identity(options, host)


@dataclass(frozen=True, slots=True)
class AzureAccess:
    """The access of another client to a container; secrets never show in `repr`.

    Attributes:
        account: storage account.
        container: its name.
        endpoint: URL of the account.
        key: of the account; None with another credential.
        sas_token: None with another credential.
        bearer_token: of an identity, valid for about an hour; None with another credential.
    """

    account: str
    container: str
    endpoint: str
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)


def access_to(options: AzureOptions, url: str) -> AzureAccess:
    """Resolve the access to a container for another client, with the credential of our own.

    Args:
        options: as for all requests.
        url: of the container.

    Raises:
        ConfigError: see `credential_of`.
        UnavailableError: no token was given.
    """
    require()
    container = container_of(url)
    credential, found = credential_of(container, options), (container.account, container.name)
    endpoint = endpoint_of(container, options)
    if hasattr(credential, "named_key"):
        return AzureAccess(*found, endpoint, key=credential.named_key.key)
    if hasattr(credential, "signature"):
        return AzureAccess(*found, endpoint, sas_token=credential.signature)
    with translated(f"ask for a token for {url}"):
        return AzureAccess(*found, endpoint, bearer_token=credential.get_token(_SCOPE).token)


def _identity(options: AzureOptions, host: str) -> Any:
    """A service principal, or what the machine has."""
    from azure.identity import ClientSecretCredential, DefaultAzureCredential

    authority = next((name for end, name in _AUTHORITIES.items() if host.endswith(end)), "")
    more: dict[str, Any] = {"authority": authority} if authority else {}
    held = _clients
    with held.lock:
        found = held.identities.get((options, authority))
        if found is None:
            if options.tenant_id and options.client_id and options.client_secret:
                found = ClientSecretCredential(
                    options.tenant_id, options.client_id, options.client_secret, **more
                )
            else:
                found = DefaultAzureCredential(managed_identity_client_id=options.client_id, **more)
            held.identities[options, authority] = found
        return found
