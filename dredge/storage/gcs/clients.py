"""Sessions of this process with Google Cloud Storage.

Google's libraries have credentials and their renewal. Requests use their HTTP session instead of the `Blob` objects of
`google-cloud-storage`, which take half the time of a listing, keep only the first error of a batch, and hide the
generation of an answer.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from dredge.errors import ConfigError
from dredge.storage.https import mount
from dredge.storage.options import GcsOptions
from dredge.storage.remote import ProcessCache

POOL_CONNECTIONS = 64
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
INSTALL = "Google Cloud Storage needs the extra gcs: pip install 'dredge[gcs]'"


_cache = ProcessCache()


def session(options: GcsOptions) -> Any:
    """The authorised HTTP session. It also loads Google's libraries, so it comes before any other use of them."""
    return _cache.get(("http", options), lambda: _build(options))


def credentials(options: GcsOptions) -> Any:
    """The credentials; raises like `session`."""
    return _cache.get(("credentials", options), lambda: _credentials(options))


def _build(options: GcsOptions) -> Any:
    allowed = credentials(options)
    from google.auth.transport.requests import AuthorizedSession

    # Without credentials there is nothing to renew, and the answer names the missing right.
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
        warnings.simplefilter("ignore")  # a warning about files from untrusted sources
        return google.auth.load_credentials_from_dict(info, scopes=_SCOPES)[0]  # type: ignore[no-untyped-call]
