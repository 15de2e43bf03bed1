"""The Azure clients of this process and their errors; signed URLs, for others and for the service when it copies.

URLs are signed with an account's key, or with a user delegation key of an identity, which is requested once an hour, as
in lakeFS. A SAS token cannot sign a URL, and would itself give access to more than one object.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from dredge import causes
from dredge.causes import UNUSABLE, Cause
from dredge.errors import ConfigError, DredgeError
from dredge.storage.https import CONNECT_SECONDS, READ_SECONDS, mount, redact
from dredge.storage.location import Container, container_of
from dredge.storage.options import AzureOptions, StorageOptions
from dredge.storage.remote import ProcessCache

if TYPE_CHECKING:
    from azure.storage.blob import BlobServiceClient, ContainerClient

FOLDER_MARK = "hdi_isfolder"
THROTTLED = frozenset(
    {"ServerBusy", "TooManyRequests", "IngressLimitReached", "EgressLimitReached", "503", "429"}
)
TRANSIENT = frozenset({"InternalError", "OperationTimedOut", "500", "502", "504", "408", "ConnectionError"})
_NO_CONTAINER = frozenset({"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"})
_CONFLICT = frozenset(
    {
        "BlobAlreadyExists",
        "ConditionNotMet",
        "TargetConditionNotMet",
        "SourceConditionNotMet",
        "UnauthorizedBlobOverwrite",
    }
)
# Another writer discarded the blocks of an upload: start it again.
_LOST_BLOCKS = frozenset({"InvalidBlockList", "InvalidBlobOrBlock"})
_EXPIRED = frozenset({"ExpiredAuthenticationToken"})
_CREDENTIALS = frozenset({"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"})
_CHECKSUM = frozenset({"MissingContentMD5", "MissingContentCrc64"})
_UNKNOWN_REQUEST = frozenset({"NotImplemented", "UnsupportedHttpVerb", "FeatureNotSupported"})
_HINTS = {
    causes.DENIED: "Check the key, the SAS token's permissions or the role (Storage Blob Data Contributor), and the"
    " account's network rules.",
    causes.NO_CONTAINER: "There is no such container at this endpoint; check URI and endpoint.",
}


def by_code(code: str, status: int, words: str) -> DredgeError:
    """The error for an error code and HTTP status."""
    cause = _cause(code, status, words)
    return cause.error(words, _HINTS.get(cause, ""))


def _cause(code: str, status: int, words: str) -> Cause:
    if code in _NO_CONTAINER:
        return causes.NO_CONTAINER
    if code in _CONFLICT or status == 412:
        return causes.CONFLICT
    if status == 404:
        return causes.MISSING
    if code in _UNKNOWN_REQUEST or status in {405, 501}:
        return causes.NOT_IMPLEMENTED
    if code in _CHECKSUM:
        return causes.CHECKSUM
    if code in _EXPIRED or (code in _CREDENTIALS and "expired" in words.lower()):
        return causes.EXPIRED
    if code in _CREDENTIALS or status == 401:
        return causes.CREDENTIALS
    if code in THROTTLED | TRANSIENT | _LOST_BLOCKS or status in {408, 429} or status >= 500:
        return causes.BUSY
    return causes.DENIED if status == 403 else causes.REJECTED


def code_of(error: Exception) -> str:
    """The service's code of an error, or its HTTP status."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or getattr(error, "status_code", None) or "")


def translate(error: Exception, doing: str) -> DredgeError:
    """Translate an error of Azure's libraries."""
    from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError

    if isinstance(error, HttpResponseError) and error.status_code:
        code = code_of(error)
        # The first line is the service's message; the next lines have the request's id and the signed text.
        said = (error.message or "").partition("\n")[0]
        return by_code(
            code, int(error.status_code), redact(f"{doing}: {code} {said or error.reason or ''}".rstrip())
        )
    words = redact(f"{doing}: {error}")
    if causes.is_certificate(error):
        return causes.CERTIFICATE.error(words)
    if isinstance(error, ClientAuthenticationError):
        return causes.CREDENTIALS.error(words)
    return (causes.UNREACHABLE if isinstance(error, ServiceRequestError) else causes.NO_ANSWER).error(words)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Replace errors of Azure's libraries by Dredge's, without the original as cause: it may contain signed URLs."""
    from azure.core.exceptions import AzureError

    try:
        yield
    except AzureError as error:
        raise translate(error, doing) from None


PIECE_BYTES = 8 << 20
"""Bytes per request."""
_POOL_CONNECTIONS = 64
_READ_RETRIES = 5
# A token of an identity is valid for every account, so it is only sent to the service.
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


CLIENTS = ProcessCache()


def require() -> None:
    """Load the SDK; raises ConfigError if it is not installed."""
    if not is_installed():
        raise ConfigError(
            "Azure Blob Storage needs azure-storage-blob and azure-identity: pip install 'dredge[azure]', here and"
            " where Spark's executors run. Nothing was changed."
        )
    with CLIENTS.lock:
        import azure.identity
        import azure.storage.blob  # noqa: F401


def is_installed() -> bool:
    """Whether the extra `azure` is installed; does not import it."""
    return all(_is_there(name) for name in ("azure.storage.blob", "azure.identity"))


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:  # not even the name before the last dot
        return False


def container_client(options: StorageOptions, url: str, retries: bool = True) -> ContainerClient:
    """The SDK's client of a container. `retries`: False for one that reports throttling instead of trying again."""
    return CLIENTS.get((options, url, retries), lambda: _build(options, container_of(url), retries))


def service_client(options: StorageOptions, url: str) -> BlobServiceClient:
    """The SDK's client of a container's account; close it."""
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
    """URL of an account: the endpoint in the options, if it is that account's."""
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
    """Credentials for an account: its key or SAS token, or an identity. Raises ConfigError: an identity's token would
    be sent to a host other than the service's."""
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
            f"no key or SAS token for the account {container.account}, and {host or 'this host'} is no host of Azure:"
            " the token of an identity is sent only to Azure. If it is one, set AZURE_STORAGE_ACCOUNT and"
            " AZURE_STORAGE_ENDPOINT (https). Nothing was sent."
        )
    return _identity(options, host)


@dataclass(frozen=True, slots=True)
class AzureAccess:
    """The access of another client to a container; secrets never show in `repr`."""

    account: str
    container: str
    endpoint: str
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    # of an identity, valid for about an hour; None with another credential
    bearer_token: str | None = field(default=None, repr=False)


def access_to(options: AzureOptions, url: str) -> AzureAccess:
    """Resolve the access to a container for another client, with the credential of our own."""
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
    from azure.identity import ClientSecretCredential, DefaultAzureCredential

    authority = next((name for end, name in _AUTHORITIES.items() if host.endswith(end)), "")
    more: dict[str, Any] = {"authority": authority} if authority else {}

    def build() -> Any:
        if options.tenant_id and options.client_id and options.client_secret:
            return ClientSecretCredential(options.tenant_id, options.client_id, options.client_secret, **more)
        return DefaultAzureCredential(managed_identity_client_id=options.client_id, **more)

    return CLIENTS.get((options, authority), build)


_SKEW = timedelta(minutes=5)
_DELEGATED = timedelta(hours=2)
_keys: dict[tuple[int, StorageOptions, str], tuple[Any, datetime]] = {}


def signed_url(
    options: StorageOptions,
    url: str,
    name: str,
    expires_seconds: int,
    rights: str,
    disposition: str = "",
    version: str = "",
) -> str:
    """Sign the URL of a blob."""
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
        content_disposition=disposition or None,
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
    """URL of a blob for a copy by the service, and arguments of the SDK's call."""
    container = container_of(url)
    endpoint = endpoint_of(container, options.azure)
    plain = f"{endpoint}/{container.name}/{quote(name, safe='~/')}"
    if options.azure.account == container.account:
        if options.azure.key:
            return signed_url(options, url, name, seconds, "r", version=version), {}
        if options.azure.sas_token:
            return f"{plain}?{_of_version(version)}{options.azure.sas_token}", {}
    token = credential_of(container, options.azure).get_token(_SCOPE).token
    if version:
        plain = f"{plain}?{_of_version(version).rstrip('&')}"
    return plain, {"source_authorization": f"Bearer {token}"}
