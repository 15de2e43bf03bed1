"""URLs that let others read or write one object for a while, signed as version 4 by Google's library.

Only credentials with a private key sign by themselves: a key file. An identity of the machine would need a request to
the IAM service for each URL, and is told so.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dredge.errors import ConfigError
from dredge.storage.gcs.clients import credentials, library
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.signed_urls import attachment


def signed_url(
    options: GcsOptions, bucket: str, name: str, method: str, valid: timedelta, filename: str = ""
) -> str:
    """Sign a URL; nothing is asked of the service.

    Args:
        options: whose credentials sign.
        bucket: name of the bucket.
        name: whole name of the object.
        method: of HTTP.
        valid: for how long; the service takes seven days at most.
        filename: under which browsers save the object; "" leaves that to them.

    Raises:
        ConfigError: the credentials cannot sign, or not for so long.
    """
    signer = credentials(options)
    if not hasattr(signer, "sign_bytes"):
        raise ConfigError("signed URLs of Google Cloud Storage need a service account's key file")
    client: Any = library().Client(project=options.project or "-", credentials=signer)
    try:
        return str(
            client.bucket(bucket)
            .blob(name)
            .generate_signed_url(
                version="v4",
                expiration=valid,
                method=method,
                api_access_endpoint=options.endpoint,
                response_disposition=attachment(filename) if filename else None,
                credentials=signer,
            )
        )
    except ValueError as error:
        raise ConfigError(f"no URL can be signed for {name!r}: {error}") from None
