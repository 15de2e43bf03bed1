"""Options to reach the stores: endpoints and credentials."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dredge.connections import ca_bundles, check_key, check_server_url
from dredge.errors import ConfigError, DredgeError
from dredge.storage.schemes import Driver

_ENV = {
    "account": "AZURE_STORAGE_ACCOUNT",
    "key": "AZURE_STORAGE_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "endpoint_url": "AZURE_STORAGE_ENDPOINT",
    "tenant_id": "AZURE_TENANT_ID",
    "client_id": "AZURE_CLIENT_ID",
    "client_secret": "AZURE_CLIENT_SECRET",
}
_CONNECTION_STRING = "AZURE_STORAGE_CONNECTION_STRING"
_OF_ACCOUNT = (*(name for name in _ENV.values() if "_STORAGE_" in name), _CONNECTION_STRING)
_OF_IDENTITY = tuple(name for name in _ENV.values() if "_STORAGE_" not in name)


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """Options of Azure Blob Storage; secrets are not in `repr`.

    Key and SAS token are used only for their account; other accounts use the service principal, or the machine's
    identity (managed identity, workload identity, the CLI's login)."""

    account: str | None = None
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)  # without the question mark
    # of the account, if it is not `https://<account>.blob.core.windows.net`: an emulator
    # (`http://127.0.0.1:10000/devstoreaccount1`), a private endpoint
    endpoint_url: str | None = None
    tenant_id: str | None = None  # of a service principal
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.key or self.sas_token or self.endpoint_url) and not self.account:
            raise ConfigError(
                "a key, SAS token or endpoint of Azure belongs to one storage account; name it"
                " (AZURE_STORAGE_ACCOUNT). Nothing was changed."
            )
        if self.client_secret and not (self.tenant_id and self.client_id):
            raise ConfigError("a client secret of Azure needs AZURE_TENANT_ID and AZURE_CLIENT_ID with it")
        if self.endpoint_url is not None:
            check_server_url(self.endpoint_url, "the Azure endpoint", "https://acct.example.net")
        check_key(self.key, "the key of the Azure account")
        check_key(self.sas_token, "the SAS token of Azure")
        check_key(self.client_secret, "the client secret of Azure")

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> AzureOptions:
        """Read Azure's variables; single variables override the connection string."""
        found = _of_connection_string(environ.get(_CONNECTION_STRING, ""))
        found |= {name: environ[variable] for name, variable in _ENV.items() if environ.get(variable)}
        if "sas_token" in found:
            found["sas_token"] = found["sas_token"].removeprefix("?")
        return cls(**found)

    def to_env(self) -> dict[str, str]:
        """Variables for `from_env` in a child process, with secrets.

        With an account or an identity the other variables of its group are empty, so that the child's own are not
        mixed in.
        """
        values = {_ENV[item.name]: getattr(self, item.name) for item in fields(self)}
        values[_CONNECTION_STRING] = None
        found: dict[str, str] = {}
        for group in (_OF_ACCOUNT, _OF_IDENTITY):
            if any(values[name] is not None for name in group):
                found |= {name: values[name] or "" for name in group}
        return found


def _of_connection_string(text: str) -> dict[str, str]:
    """Settings in a connection string; none in an empty one.

    Source: "Configure Azure Storage connection strings" of Azure's documentation.
    """
    if not text.strip():
        return {}
    pairs = [item.partition("=") for item in text.strip().rstrip(";").split(";")]
    said = {name.strip().lower(): value for name, _, value in pairs}
    if said.get("usedevelopmentstorage", "").lower() == "true":
        raise ConfigError("UseDevelopmentStorage=true names no account: give the emulator's account and key")
    found = {"account": said.get("accountname"), "key": said.get("accountkey")}
    found["sas_token"] = said.get("sharedaccesssignature")
    endpoint = said.get("blobendpoint", "").rstrip("/")
    if not endpoint and said.get("endpointsuffix") and found["account"]:
        protocol = said.get("defaultendpointsprotocol", "https")
        endpoint = f"{protocol}://{found['account']}.blob.{said['endpointsuffix']}"
    found["endpoint_url"] = endpoint or None
    if not found["account"] and endpoint:
        server = check_server_url(endpoint, "the Azure endpoint", "https://acct.example.net")
        found["account"] = server.partition("://")[2].partition(".")[0]
    if not found["account"]:
        raise ConfigError(f"{_CONNECTION_STRING} names neither an account nor a blob endpoint")
    return {name: value for name, value in found.items() if value}


ENDPOINT = "https://storage.googleapis.com"
CREDENTIALS_JSON = "DREDGE_GCS_CREDENTIALS_JSON"
"""Variable with a key for processes without a key file, such as Spark executors."""


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """Options of Google Cloud Storage; secrets are not in `repr`."""

    credentials_file: str | None = None
    # content of such a file; overrides the path
    credentials_json: str | None = field(default=None, repr=False)
    project: str | None = None
    user_project: str | None = None  # project to bill for buckets with requester pays
    # an emulator or private endpoint; requests to it are unsigned without credentials
    endpoint_url: str | None = None
    retry_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.endpoint_url is not None:
            check_server_url(self.endpoint_url, "the endpoint of Google Cloud Storage", "http://host:4443")
        if self.credentials_json is not None and not _is_object(self.credentials_json):
            raise ConfigError("the key for Google Cloud Storage must be the content of a JSON key file")

    @property
    def endpoint(self) -> str:
        """URL of the service, without a trailing slash."""
        return (self.endpoint_url or ENDPOINT).rstrip("/")

    @property
    def is_anonymous(self) -> bool:
        """Whether requests have no credentials: another endpoint, and no credentials given."""
        return self.endpoint_url is not None and not (self.credentials_file or self.credentials_json)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> GcsOptions:
        """Read the variables of Google's libraries and of `to_env`."""
        host = env.get("STORAGE_EMULATOR_HOST") or None
        return cls(
            credentials_file=env.get("GOOGLE_APPLICATION_CREDENTIALS") or None,
            credentials_json=env.get(CREDENTIALS_JSON) or None,
            project=env.get("GOOGLE_CLOUD_PROJECT") or None,
            user_project=env.get("DREDGE_GCS_USER_PROJECT") or None,
            endpoint_url=f"http://{host}" if host and "://" not in host else host,
        )

    def to_env(self) -> dict[str, str | None]:
        """Variables for `from_env` in a child process, with secrets.

        With a key or an endpoint the other variables are empty, so that the child's own are not mixed in.
        """
        values = {
            "GOOGLE_APPLICATION_CREDENTIALS": self.credentials_file,
            CREDENTIALS_JSON: self.credentials_json,
            "GOOGLE_CLOUD_PROJECT": self.project,
            "DREDGE_GCS_USER_PROJECT": self.user_project,
            "STORAGE_EMULATOR_HOST": self.endpoint_url,
        }
        is_told = self.credentials_file or self.credentials_json or self.endpoint_url
        return {name: value or "" for name, value in values.items()} if is_told else values


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


S3_SETTINGS = "DREDGE_S3"
"""Variable with all options of S3, keys included, for a child process; it overrides all others."""
_STYLE = "AWS_S3_ADDRESSING_STYLE"
_PAYER = "AWS_REQUEST_PAYER"
_NOT_OF_S3 = frozenset({"local_base", "delete_requests", "azure", "gcs", "unknown"})


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Options of the object stores; secrets are not in `repr`."""

    endpoint_url: str | None = None  # of an S3-compatible server, without credentials; None is AWS
    region: str | None = None
    # None uses the SDK's chain (profile, instance role)
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    # JSON arguments of STS AssumeRole, called with the credentials above
    role: str | None = field(default=None, repr=False)
    sts_endpoint: str | None = None
    ca_bundle: str | None = None
    check_certificates: bool = True
    # bucket in the path instead of the host name; None means "with an endpoint_url"
    path_style: bool | None = None
    # JSON with additional arguments of botocore's `Config`, such as `{"use_fips_endpoint": true}`
    config: str | None = field(default=None, repr=False)
    # AWS's configuration was read (`s3.resolving.resolved`), so None is final, in child processes too
    is_resolved: bool = False
    requester_pays: bool = False
    local_base: str | None = None  # folder of `local://name` URIs
    delete_requests: int = 16
    azure: AzureOptions = field(default_factory=AzureOptions)
    gcs: GcsOptions = field(default_factory=GcsOptions)
    # kinds of stores without usable options, each with the error for opening one
    unknown: tuple[tuple[Driver, DredgeError], ...] = ()

    def __post_init__(self) -> None:
        if self.endpoint_url is not None:
            check_server_url(self.endpoint_url, "the S3 endpoint", "http://host:9000")
        if self.sts_endpoint is not None:
            check_server_url(self.sts_endpoint, "the endpoint of STS", "https://sts.example.com")
        check_key(self.access_key_id, "the access key id of S3")
        check_key(self.secret_access_key, "the secret access key of S3")
        check_key(self.session_token, "the session token of S3")
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ConfigError("access key id and secret access key are needed together; one is missing")
        if self.delete_requests < 1:
            raise ConfigError("delete_requests must be at least 1")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> StorageOptions:
        """Read the variables of AWS, Azure and Google, and DREDGE_LOCAL_BASE; an empty variable counts as absent.
        `environ` defaults to this process's."""
        env = os.environ if environ is None else environ
        return cls(
            **_s3_of(env),
            local_base=env.get("DREDGE_LOCAL_BASE") or None,
            azure=AzureOptions.from_env(env),
            gcs=GcsOptions.from_env(env),
        )

    def to_env(self) -> dict[str, str]:
        """Variables for `from_env`, with secrets; for another process see `environment_of_child`."""
        said = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in _NOT_OF_S3 and getattr(self, item.name) != item.default
        }
        values = {
            "DREDGE_LOCAL_BASE": self.local_base,
            S3_SETTINGS: json.dumps(said) if said else None,
            **self.azure.to_env(),
            **self.gcs.to_env(),
        }
        return {name: value for name, value in values.items() if value is not None}


def _s3_of(env: Mapping[str, str]) -> dict[str, Any]:
    if env.get(S3_SETTINGS):
        said: dict[str, Any] = json.loads(env[S3_SETTINGS])
        return said

    def first(*names: str) -> str | None:
        return next((env[name] for name in names if env.get(name)), None)

    ignored = (first("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") or "").lower() == "true"
    key = first("AWS_ACCESS_KEY_ID")
    return {
        "endpoint_url": None if ignored else first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": first("AWS_REGION", "AWS_DEFAULT_REGION"),
        "access_key_id": key,
        "secret_access_key": first("AWS_SECRET_ACCESS_KEY"),
        "session_token": first("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN") if key else None,
        "ca_bundle": next(iter(ca_bundles(env)), None),
        "path_style": {"path": True, "virtual": False}.get(first(_STYLE) or ""),
        "requester_pays": first(_PAYER) == "requester",
    }
