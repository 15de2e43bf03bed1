"""The sessions of this process with Google Cloud Storage: built when first needed, shared, rebuilt after a fork.

`google-cloud-storage` brings the credentials, their refreshing and the signing of URLs. Requests are made through its
authorised HTTP session and not through its `Blob` objects: those cost half of the time of a listing, keep of a batch's
answers only the first error, and leave open which generation an answer is about.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dredge.errors import ConfigError
from dredge.storage.https import mount
from dredge.storage.model import attachment
from dredge.storage.options import GcsOptions

POOL_CONNECTIONS = 64
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
INSTALL = "Google Cloud Storage needs the extra gcs: pip install 'dredge[gcs]'"


@dataclass(slots=True)
class _Sessions:
    """What one process holds."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    http: dict[GcsOptions, Any] = field(default_factory=dict)
    credentials: dict[GcsOptions, Any] = field(default_factory=dict)


_sessions = _Sessions()


def _forget_parent() -> None:
    """In a forked child: the parent's sockets are not ours, and threads we lack may hold its locks."""
    global _sessions
    _sessions = _Sessions()


os.register_at_fork(after_in_child=_forget_parent)


def session(options: GcsOptions) -> Any:
    """The authorised HTTP session for these options.

    Comes before anything else of the libraries: it loads them in one thread, while several at once that begin at
    different modules of a circle of imports would see them half made.

    Raises:
        ConfigError: the extra is not installed, or there are no credentials.
    """
    held = _sessions
    with held.lock:
        found = held.http.get(options)
        if found is None:
            found = held.http[options] = _build(options)
        return found


def credentials(options: GcsOptions) -> Any:
    """The credentials for these options; raises as `session`."""
    held = _sessions
    with held.lock:
        found = held.credentials.get(options)
        if found is None:
            found = held.credentials[options] = _credentials(options)
        return found


def library() -> Any:
    """The module `google.cloud.storage`, loaded in one thread; raises ConfigError without the extra."""
    with _sessions.lock:
        try:
            from google.cloud import storage
        except ImportError:
            raise ConfigError(INSTALL) from None
        return storage


def _build(options: GcsOptions) -> Any:
    allowed = credentials(options)
    from google.auth.transport.requests import AuthorizedSession

    # Without credentials there is nothing to renew, and the answer itself says what is missing.
    renewed = () if options.is_anonymous else (401,)
    built: Any = AuthorizedSession(allowed, refresh_status_codes=renewed)  # type: ignore[no-untyped-call]
    mount(built, POOL_CONNECTIONS)
    if options.user_project:
        built.headers["X-Goog-User-Project"] = options.user_project
    return built


def _credentials(options: GcsOptions) -> Any:
    try:
        from google.auth.exceptions import GoogleAuthError
    except ImportError:
        raise ConfigError(INSTALL) from None
    try:
        return _load(options)
    except FileNotFoundError:
        raise ConfigError(f"there is no key file {options.credentials_file}") from None
    except (GoogleAuthError, OSError, ValueError) as error:
        # Their words may quote the key.
        raise ConfigError(
            f"no credentials for Google Cloud Storage ({type(error).__name__}): give a connection of type"
            " google_cloud_platform, GOOGLE_APPLICATION_CREDENTIALS, or an identity of the machine"
        ) from None


def _load(options: GcsOptions) -> Any:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.oauth2 import service_account

    if options.is_anonymous:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    text = options.credentials_json
    if text is None and options.credentials_file is not None:
        with open(options.credentials_file, encoding="utf-8") as file:
            text = file.read()
    if text is None:
        return google.auth.default(scopes=_SCOPES)[0]
    info = json.loads(text)
    if info.get("type") == "service_account":
        return service_account.Credentials.from_service_account_info(info, scopes=_SCOPES)  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that such files should come from somebody trusted: they do
        return google.auth.load_credentials_from_dict(info, scopes=_SCOPES)[0]  # type: ignore[no-untyped-call]


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
