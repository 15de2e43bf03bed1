"""The S3 clients of this process: built when first needed, shared by all who use S3, rebuilt after a fork.

Two libraries share the work. boto3 does everything that must be exact about keys or answers: listing,
deleting, conditional writes. obstore moves bytes (get, put) with a fifth of the CPU and looks objects up (head) with
a tenth, but rewrites some keys, so it only gets keys that are their own normal form; and it hangs for ever in a child
forked after its first use, so in such a child boto3 does that part as well. Both are told the same of a bucket
(`access.py`), and read nothing of the environment themselves.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError
from dredge.storage import native
from dredge.storage.native import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.options import StorageOptions
from dredge.storage.s3.access import READ_ATTEMPTS, Access, find_access
from dredge.storage.s3.errors import translated
from dredge.storage.s3.resolving import Identity, identity_of, resolved

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from obstore.store import ClientConfig, RetryConfig, S3Store

# Credentials that expire are renewed ten minutes before that, so that none is used for longer.
CREDENTIALS_KEPT = timedelta(minutes=9)
# obstore reads these of the environment, and nothing that it is told takes them back. boto3 reads none of them.
_ONLY_OBSTORE = frozenset(
    f"AWS_{name}"
    for name in (
        "CHECKSUM_ALGORITHM",
        "DEFAULT_CONTENT_TYPE",
        "HTTP1_ONLY",
        "HTTP2_ONLY",
        "PROXY_CA_CERTIFICATE",
        "PROXY_EXCLUDES",
        "PROXY_URL",
        "SERVER_SIDE_ENCRYPTION",
        "SSE_BUCKET_KEY_ENABLED",
        "SSE_CUSTOMER_KEY_BASE64",
        "SSE_KMS_KEY_ID",
    )
)


@dataclass(slots=True)
class _Clients:
    """What one process holds."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    known: dict[StorageOptions, tuple[StorageOptions, Identity]] = field(default_factory=dict)
    access: dict[tuple[StorageOptions, str], Access] = field(default_factory=dict)
    boto3: dict[tuple[StorageOptions, str, bool], S3Client] = field(default_factory=dict)
    signers: dict[tuple[StorageOptions, str], S3Client] = field(default_factory=dict)
    obstore: dict[tuple[StorageOptions, str], S3Store | None] = field(default_factory=dict)


_clients = _Clients()


def forget_clients() -> None:
    """Let clients be built anew. In a forked child the parent's sockets are not ours, and threads that the child lacks
    may hold the parent's locks.
    """
    global _clients
    _clients = _Clients()


os.register_at_fork(after_in_child=forget_clients)


def s3_client(options: StorageOptions, bucket: str, retries: bool = True) -> S3Client:
    """The boto3 client for a bucket.

    Args:
        options: endpoint, region, credentials.
        bucket: its name.
        retries: False for a client that reports throttling at once instead of waiting and trying again.
    """
    held = _clients
    with held.lock:
        client = held.boto3.get((options, bucket, retries))
        if client is None:
            client = held.boto3[options, bucket, retries] = access_to(options, bucket).client(
                retries, options.requester_pays
            )
        return client


def signing_client(options: StorageOptions, bucket: str) -> S3Client:
    """The boto3 client that signs URLs for others, with version 4: boto3 alone would sign them with version 2, and such
    a URL is refused as soon as the client sends a content type.
    """
    held = _clients
    with held.lock:
        client = held.signers.get((options, bucket))
        if client is None:
            client = held.signers[options, bucket] = access_to(options, bucket).client(
                signature_version="s3v4", requester_pays=options.requester_pays
            )
        return client


def bytes_client(options: StorageOptions, bucket: str) -> S3Store | None:
    """The obstore client for one bucket; None where obstore must not be used (see the module's text)."""
    held = _clients
    if not native.usable():
        return None
    with held.lock:
        if (options, bucket) not in held.obstore:
            access = access_to(options, bucket)
            usable = access.fits_obstore and not any(os.environ.get(name) for name in _ONLY_OBSTORE)
            held.obstore[options, bucket] = (
                _build_obstore(access, options.requester_pays, bucket) if usable else None
            )
        return held.obstore[options, bucket]


def access_to(options: StorageOptions, bucket: str) -> Access:
    """How this process reaches a bucket.

    Raises:
        ConfigError: AWS's configuration contradicts itself.
        UnavailableError: the bucket had to be asked for its region and did not answer.
    """
    held = _clients
    with held.lock:
        access = held.access.get((options, bucket))
        if access is None:
            if options not in held.known:
                known = resolved(options)
                held.known[options] = known, identity_of(known)
            access = held.access[options, bucket] = find_access(*held.known[options], bucket)
        return access


@translated("making the client of S3")
def _build_obstore(access: Access, requester_pays: bool, bucket: str) -> S3Store:
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import S3Store

    client_options: ClientConfig = {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "read_timeout": f"{READ_SECONDS}s",
        "timeout": "30m",
        "allow_http": access.url.startswith("http://"),
        "allow_invalid_certificates": access.verify is False,
    }
    if isinstance(access.verify, str):
        with open(access.verify, "rb") as file:
            client_options["root_certificate"] = file.read()
    proxy, passed_by = access.proxy
    if proxy is not None:
        client_options["proxy_url"] = proxy
        if passed_by is not None:
            client_options["proxy_excludes"] = passed_by
    settings: dict[str, Any] = {"checksum_algorithm": "SHA256"} if access.wants_checksums else {}
    if not access.is_anonymous:
        doing = f"asking for the credentials of bucket {bucket}"
        with translated(doing):
            try:
                settings["credential_provider"] = Boto3CredentialProvider(
                    access.session, ttl=CREDENTIALS_KEPT
                )
            except ValueError:
                raise ConfigError(
                    f"no credentials for bucket {bucket}: set them in the connection, the environment or the"
                    " machine's role."
                ) from None
            settings["credential_provider"]()  # what goes wrong is boto3's to say
    retries: RetryConfig = {"max_retries": READ_ATTEMPTS - 1, "retry_timeout": timedelta(minutes=2)}
    return S3Store(
        bucket,
        client_options=client_options,
        retry_config=retries,
        # Both names, as the environment's comes first where only the other is told.
        aws_endpoint_url_s3=access.url,
        endpoint=access.url,
        virtual_hosted_style_request=True,  # that is: the URL has the bucket, wherever
        region=access.region,
        skip_signature=access.is_anonymous,
        unsigned_payload=False,
        s3_express=False,
        request_payer=requester_pays,
        **settings,
    )
