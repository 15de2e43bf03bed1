"""The S3 clients of this process.

Two libraries share the work. boto3 lists, deletes and writes under conditions, as keys and answers must be exact.
obstore moves bytes (get, put) with a fifth of the CPU, and needs a tenth for head, but rewrites some keys, so it gets
only keys in normal form. In a child forked after its first use obstore hangs, so boto3 does its part there. Both have
the settings of `access.py`, and read nothing from the environment.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError
from dredge.storage.https import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.options import StorageOptions
from dredge.storage.remote import ProcessCache
from dredge.storage.s3.access import READ_ATTEMPTS, Access, find_access
from dredge.storage.s3.resolving import Identity, identity_of, resolved, translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from obstore.store import ClientConfig, RetryConfig, S3Store

# Credentials that expire are renewed ten minutes before that, so that none is used for longer.
CREDENTIALS_KEPT = timedelta(minutes=9)
# obstore hangs for ever in a child forked after it was loaded.
_usable = True


def _after_fork() -> None:
    global _usable
    _usable = _usable and "obstore" not in sys.modules


os.register_at_fork(after_in_child=_after_fork)
# obstore reads these from the environment, and arguments do not override them. boto3 reads none of them.
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


CLIENTS = ProcessCache()


def s3_client(options: StorageOptions, bucket: str, retries: bool = True) -> S3Client:
    """The boto3 client of a bucket.

    Args:
        retries: False for a client that reports throttling instead of trying again.
    """
    return CLIENTS.get(
        ("boto3", options, bucket, retries),
        lambda: access_to(options, bucket).client(retries, options.requester_pays),
    )


def signing_client(options: StorageOptions, bucket: str) -> S3Client:
    """The boto3 client that signs URLs for others."""
    # boto3's default is version 2: a URL signed so is refused when the client sends a content type.
    return CLIENTS.get(
        ("signer", options, bucket),
        lambda: access_to(options, bucket).client(
            signature_version="s3v4", requester_pays=options.requester_pays
        ),
    )


def bytes_client(options: StorageOptions, bucket: str) -> S3Store | None:
    """The obstore client of a bucket; None if obstore cannot be used (see the module)."""
    return CLIENTS.get(("obstore", options, bucket), lambda: _obstore(options, bucket)) if _usable else None


def access_to(options: StorageOptions, bucket: str) -> Access:
    """The settings to reach a bucket."""

    def known() -> tuple[StorageOptions, Identity]:
        found = resolved(options)
        return found, identity_of(found)

    return CLIENTS.get(
        ("access", options, bucket), lambda: find_access(*CLIENTS.get(("known", options), known), bucket)
    )


def _obstore(options: StorageOptions, bucket: str) -> S3Store | None:
    access = access_to(options, bucket)
    usable = access.fits_obstore and not any(os.environ.get(name) for name in _ONLY_OBSTORE)
    return _build_obstore(access, options.requester_pays, bucket) if usable else None


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
            settings["credential_provider"]()  # raises boto3's errors
    retries: RetryConfig = {"max_retries": READ_ATTEMPTS - 1, "retry_timeout": timedelta(minutes=2)}
    return S3Store(
        bucket,
        client_options=client_options,
        retry_config=retries,
        # Both names, because the environment overrides a missing one.
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
