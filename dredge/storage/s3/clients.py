"""The S3 clients of this process: built when first needed, shared by all who use S3, rebuilt after a fork.

Two libraries share the work. boto3 does everything that must be exact about keys or answers: listing,
deleting, conditional writes. obstore moves bytes (get, put) with a fifth of the CPU and looks objects up (head) with
a tenth, but rewrites some keys, so it only gets keys that are their own normal form; and it hangs for ever in a child
forked after its first use, so in such a child boto3 does that part as well.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from dredge.errors import ConfigError
from dredge.server_urls import check_ca_bundle
from dredge.storage import native
from dredge.storage.native import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.options import StorageOptions
from dredge.storage.s3.errors import translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from obstore.store import ClientConfig, RetryConfig, S3Store

POOL_CONNECTIONS = 64
READ_ATTEMPTS = 6


@dataclass(slots=True)
class _Clients:
    """What one process holds."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    session: Any = None
    boto3: dict[tuple[StorageOptions, bool], S3Client] = field(default_factory=dict)
    signers: dict[StorageOptions, S3Client] = field(default_factory=dict)
    obstore: dict[tuple[StorageOptions, str], S3Store] = field(default_factory=dict)


_clients = _Clients()


def _forget_parent() -> None:
    """In a forked child: the parent's sockets are not ours, and threads we lack may hold its locks."""
    global _clients
    _clients = _Clients()


os.register_at_fork(after_in_child=_forget_parent)


def s3_client(options: StorageOptions, retries: bool = True) -> S3Client:
    """The boto3 client for these options.

    Args:
        options: endpoint, region, credentials.
        retries: False for a client that reports throttling at once instead of waiting and trying again.
    """
    held = _clients
    with held.lock:
        client = held.boto3.get((options, retries))
        if client is None:
            client = held.boto3[options, retries] = _build_boto3(options, retries)
        return client


def signing_client(options: StorageOptions) -> S3Client:
    """The boto3 client that signs URLs for others, with version 4: boto3 alone would sign them with version 2, and such
    a URL is refused as soon as the client sends a content type.
    """
    held = _clients
    with held.lock:
        client = held.signers.get(options)
        if client is None:
            client = held.signers[options] = _build_boto3(options, retries=True, signature_version="s3v4")
        return client


def bytes_client(options: StorageOptions, bucket: str) -> S3Store | None:
    """The obstore client for one bucket; None where obstore must not be used (see the module's text)."""
    held = _clients
    if not native.usable():
        return None
    with held.lock:
        store = held.obstore.get((options, bucket))
        if store is None:
            store = held.obstore[options, bucket] = _build_obstore(options, bucket)
        return store


def _session() -> Any:
    """One session for all clients: each new one reads the description of S3 again, for half a second."""
    if _clients.session is None:
        import boto3

        _clients.session = boto3.session.Session()
    return _clients.session


@translated("making the client of S3")
def _build_boto3(options: StorageOptions, retries: bool, signature_version: str | None = None) -> S3Client:
    from botocore.config import Config

    from dredge.storage.s3.wire import install_hooks

    check_ca_bundle(options.ca_bundle, "S3")
    client: S3Client = _session().client(
        "s3",
        endpoint_url=options.endpoint_url,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
        aws_session_token=options.session_token,
        verify=options.ca_bundle,
        region_name=options.region or ("us-east-1" if options.endpoint_url else None),
        config=Config(
            signature_version=signature_version,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=POOL_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": READ_ATTEMPTS if retries else 1},
            s3={"addressing_style": _addressing_style(options)},
            # Older S3-compatible servers refuse the newer default checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    install_hooks(client, options.requester_pays)
    return client


def _addressing_style(options: StorageOptions) -> Literal["auto", "virtual", "path"]:
    if options.uses_path_style:
        return "path"
    return "auto" if options.path_style is None else "virtual"


@translated("making the client of S3")
def _build_obstore(options: StorageOptions, bucket: str) -> S3Store:
    from obstore.store import S3Store

    client_options: ClientConfig = {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "read_timeout": f"{READ_SECONDS}s",
        "timeout": "30m",
    }
    settings: dict[str, Any] = {"virtual_hosted_style_request": not options.uses_path_style}
    check_ca_bundle(options.ca_bundle, "S3")
    if options.ca_bundle:
        with open(options.ca_bundle, "rb") as file:
            client_options["root_certificate"] = file.read()
    if options.requester_pays:
        settings["request_payer"] = True
    if options.endpoint_url:
        settings["endpoint"] = options.endpoint_url
        client_options["allow_http"] = options.endpoint_url.startswith("http://")
    settings["region"] = options.region or _session().region_name or "us-east-1"
    if options.access_key_id:
        settings["access_key_id"] = options.access_key_id
        settings["secret_access_key"] = options.secret_access_key
        if options.session_token:
            settings["session_token"] = options.session_token
    else:
        from obstore.auth.boto3 import Boto3CredentialProvider

        try:
            settings["credential_provider"] = Boto3CredentialProvider(_session())
        except ValueError:
            raise ConfigError(
                f"no credentials for bucket {bucket}: set them in the connection, the environment or the"
                " machine's role."
            ) from None
    retries: RetryConfig = {"max_retries": READ_ATTEMPTS - 1, "retry_timeout": timedelta(minutes=2)}
    return S3Store(bucket, client_options=client_options, retry_config=retries, **settings)
