"""How to reach a store: endpoint, region, credentials. The only place that reads them from an environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from dredge.errors import ConfigError, DredgeError
from dredge.server_urls import ca_bundles, check_key, check_server_url
from dredge.storage.azure.options import AzureOptions
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.schemes import Driver

_STYLE = "AWS_S3_ADDRESSING_STYLE"
_PAYER = "AWS_REQUEST_PAYER"


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Settings of the object stores; secrets never show in `repr`.

    Attributes:
        endpoint_url: an S3-compatible server; None is AWS itself. Must not carry credentials.
        region: None lets the client decide.
        access_key_id: None means the SDK's own chain (profile, instance role).
        secret_access_key: belongs to access_key_id.
        session_token: for temporary credentials.
        ca_bundle: path of a PEM file with certificate authorities to trust.
        path_style: bucket in the path instead of the host name; None means "when endpoint_url is set".
        requester_pays: whether whoever asks pays, as buckets may demand.
        local_base: folder for `local://name` URIs.
        delete_requests: bulk delete requests in flight at once.
        azure: how Azure Blob Storage is reached.
        gcs: of Google Cloud Storage.
        unknown: kinds of stores of which could not be found out how they are reached, and why; they are not opened.
    """

    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    path_style: bool | None = None
    requester_pays: bool = False
    local_base: str | None = None
    delete_requests: int = 16
    azure: AzureOptions = field(default_factory=AzureOptions)
    gcs: GcsOptions = field(default_factory=GcsOptions)
    unknown: tuple[tuple[Driver, DredgeError], ...] = ()

    def __post_init__(self) -> None:
        if self.endpoint_url is not None:
            check_server_url(self.endpoint_url, "the S3 endpoint", "http://host:9000")
        check_key(self.access_key_id, "the access key id of S3")
        check_key(self.secret_access_key, "the secret access key of S3")
        check_key(self.session_token, "the session token of S3")
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ConfigError("access key id and secret access key come together; one of them is missing")
        if self.delete_requests < 1:
            raise ConfigError("delete_requests must be at least 1")

    @property
    def uses_path_style(self) -> bool:
        """Whether requests name the bucket in the path."""
        return self.endpoint_url is not None if self.path_style is None else self.path_style

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> StorageOptions:
        """Read the usual variables of AWS, Azure and Google (and DREDGE_LOCAL_BASE) from an environment.

        Args:
            environ: defaults to this process's.
        """
        env = os.environ if environ is None else environ

        def first(*names: str) -> str | None:
            return next((env[name] for name in names if env.get(name)), None)

        return cls(
            endpoint_url=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            region=first("AWS_REGION", "AWS_DEFAULT_REGION"),
            access_key_id=first("AWS_ACCESS_KEY_ID"),
            secret_access_key=first("AWS_SECRET_ACCESS_KEY"),
            session_token=first("AWS_SESSION_TOKEN"),
            ca_bundle=next(iter(ca_bundles(env)), None),
            path_style={"path": True, "virtual": False}.get(first(_STYLE) or ""),
            requester_pays=first(_PAYER) == "requester",
            local_base=first("DREDGE_LOCAL_BASE"),
            azure=AzureOptions.from_env(env),
            gcs=GcsOptions.from_env(env),
        )

    def to_env(self) -> dict[str, str]:
        """Give the variables from which `from_env` makes these options in a child process, with secrets."""
        values = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_SESSION_TOKEN": self.session_token,
            "AWS_CA_BUNDLE": self.ca_bundle,
            _STYLE: None if self.path_style is None else "path" if self.path_style else "virtual",
            _PAYER: "requester" if self.requester_pays else None,
            "DREDGE_LOCAL_BASE": self.local_base,
            **self.azure.to_env(),
            **self.gcs.to_env(),
        }
        return {name: value for name, value in values.items() if value is not None}
