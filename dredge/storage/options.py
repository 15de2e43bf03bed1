"""How to reach a store: endpoint, region, credentials. The only place that reads them from an environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dredge.connections import ca_bundles, check_key, check_server_url
from dredge.errors import ConfigError, DredgeError
from dredge.storage.azure.options import AzureOptions
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.schemes import Driver

S3_SETTINGS = "DREDGE_S3"
"""Variable that carries all that is known of S3, keys included, to a child process; nothing else is read beside it."""
_STYLE = "AWS_S3_ADDRESSING_STYLE"
_PAYER = "AWS_REQUEST_PAYER"
_NOT_OF_S3 = frozenset({"local_base", "delete_requests", "azure", "gcs", "unknown"})


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Settings of the object stores; secrets never show in `repr`.

    Attributes:
        endpoint_url: an S3-compatible server; None is AWS itself. Must not carry credentials.
        region: None lets the client decide.
        access_key_id: None means the SDK's own chain (profile, instance role).
        secret_access_key: belongs to access_key_id.
        session_token: for temporary credentials.
        profile: of AWS's configuration files, whose credentials are meant where there is no key.
        role: JSON of the arguments of STS AssumeRole; the role is taken on with the credentials above, again and again.
        sts_endpoint: where the role is asked for; None is STS itself.
        ca_bundle: path of a PEM file with certificate authorities to trust.
        check_certificates: False trusts any server.
        path_style: bucket in the path instead of the host name; None means "when endpoint_url is set".
        config: JSON of further arguments of botocore's `Config`, such as `{"use_fips_endpoint": true}`.
        is_resolved: whether AWS's configuration has been asked for what was left open (`s3.resolving.resolved`), so
            that None means none here and in every child process.
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
    profile: str | None = None
    role: str | None = field(default=None, repr=False)
    sts_endpoint: str | None = None
    ca_bundle: str | None = None
    check_certificates: bool = True
    path_style: bool | None = None
    config: str | None = field(default=None, repr=False)
    is_resolved: bool = False
    requester_pays: bool = False
    local_base: str | None = None
    delete_requests: int = 16
    azure: AzureOptions = field(default_factory=AzureOptions)
    gcs: GcsOptions = field(default_factory=GcsOptions)
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
            raise ConfigError("access key id and secret access key come together; one of them is missing")
        if self.delete_requests < 1:
            raise ConfigError("delete_requests must be at least 1")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> StorageOptions:
        """Read the usual variables of AWS, Azure and Google (and DREDGE_LOCAL_BASE) from an environment. An empty
        variable is an absent one.

        Args:
            environ: defaults to this process's.
        """
        env = os.environ if environ is None else environ
        return cls(
            **_s3_of(env),
            local_base=env.get("DREDGE_LOCAL_BASE") or None,
            azure=AzureOptions.from_env(env),
            gcs=GcsOptions.from_env(env),
        )

    def to_env(self) -> dict[str, str]:
        """Give the variables from which `from_env` makes these options again, with secrets; for another process see
        `dredge.storage.environment_of_child`.
        """
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
