"""Connections to Azure Blob Storage (`wasb`) and Google Cloud Storage (`google_cloud_platform`).

The fields are read here, so that Airflow's providers, with dozens of client libraries, need not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import mask_secret

from dredge.errors import ConfigError
from dredge.storage.options import AzureOptions, GcsOptions

if TYPE_CHECKING:
    from airflow.sdk import Connection


AZURE_TYPE = "wasb"
_OLD_AZURE_PREFIX = "extra__wasb__"
_NOT_TAKEN_OF_AZURE = ("workload_identity_tenant_id", "client_secret_auth_config")


def azure_options(connection: Connection, options: AzureOptions) -> AzureOptions:
    """Return the options of a connection, whose credential replaces those of the environment.

    The fields are the provider's: host = account URL (or the account's name as login), password = key; extra
    ``connection_string``, ``sas_token``; ``tenant_id`` with login and password for a service principal;
    ``managed_identity_client_id``.
    """
    fields = {
        name.removeprefix(_OLD_AZURE_PREFIX): value
        for name, value in connection.extra_dejson.items()
        if value
    }
    refused = sorted(fields.keys() & set(_NOT_TAKEN_OF_AZURE))
    if refused:
        raise ConfigError(
            f"the Azure connection has {', '.join(refused)}, which Dredge does not support. Nothing was changed. Use a"
            " key, a SAS token, a service principal, or the machine's identity."
        )
    found = _described(connection.host or "", connection.login, connection.password, fields, options)
    for secret in (found.key, found.sas_token, found.client_secret):
        if secret:
            mask_secret(secret)
    return found


def _described(
    host: str, login: str | None, password: str | None, fields: dict[str, Any], options: AzureOptions
) -> AzureOptions:
    if fields.get("connection_string"):
        return AzureOptions.from_env({"AZURE_STORAGE_CONNECTION_STRING": fields["connection_string"]})
    if fields.get("tenant_id"):
        return _account(
            host, None, AzureOptions(None, None, None, None, fields["tenant_id"], login, password)
        )
    if fields.get("sas_token"):
        return _with_sas(host, login, str(fields["sas_token"]))
    key = password or fields.get("account_key") or fields.get("shared_access_key")
    if key:
        found = _account(host, login, AzureOptions())
        if found.account is None:
            raise ConfigError("the Azure connection has a key, but no account: set login to its name")
        return replace(found, key=key)
    return _account(
        host, login, replace(options, client_id=fields.get("managed_identity_client_id") or options.client_id)
    )


def _with_sas(host: str, login: str | None, token: str) -> AzureOptions:
    """Add a SAS token, with or without the account's URL before it."""
    if token.startswith("https://"):
        host, _, token = token.partition("?")
    found = _account(host, login, AzureOptions())
    if found.account is None:
        raise ConfigError(
            "the Azure connection has a SAS token, but no account: set login to the account's name"
        )
    return replace(found, sas_token=token.removeprefix("?"))


def _account(host: str, login: str | None, options: AzureOptions) -> AzureOptions:
    """Add the account, and the endpoint if the host has one. A host without a dot is an account name (old
    connections); the path of an emulator's URL has the account.
    """
    parts = urlsplit(host if "://" in host else f"https://{host}")
    name, in_path = parts.hostname or "", parts.path.strip("/")
    if not in_path and "." not in name:
        return _set_account(login or name or options.account, options)
    endpoint = f"{parts.scheme}://{parts.netloc}".replace(".dfs.core.", ".blob.core.")
    found = _set_account(in_path or name.partition(".")[0], options)
    return replace(found, endpoint_url=f"{endpoint}/{in_path}" if in_path else endpoint)


def _set_account(account: str | None, options: AzureOptions) -> AzureOptions:
    """Set the account; drop key, token and endpoint of another account."""
    if account == options.account:
        return options
    return replace(options, account=account, key=None, sas_token=None, endpoint_url=None)


GOOGLE_TYPE = "google_cloud_platform"
_OLD_GOOGLE_PREFIX = "extra__google_cloud_platform__"
_NOT_TAKEN_OF_GOOGLE = ("key_secret_name", "impersonation_chain", "idp_issuer_url", "is_anonymous")


def google_options(extra: Mapping[str, Any], options: GcsOptions) -> GcsOptions:
    """Return the options of a connection; missing fields keep the environment's values."""
    fields = {name.removeprefix(_OLD_GOOGLE_PREFIX): value for name, value in extra.items() if value}
    refused = sorted(fields.keys() & set(_NOT_TAKEN_OF_GOOGLE))
    if refused:
        raise ConfigError(
            f"the Google connection has {', '.join(refused)}, which Dredge does not support. Nothing was changed. Use"
            " a key (keyfile_dict, key_path), a credential_config_file, or the machine's identity."
        )
    key = fields.get("keyfile_dict") or fields.get("credential_config_file")
    file = fields.get("key_path")
    if isinstance(key, str) and not key.lstrip().startswith("{"):
        key, file = (None, key) if "keyfile_dict" not in fields else (key, file)
    if key is not None or file is not None:
        text = json.dumps(key) if isinstance(key, dict) else key
        _hide(text)
        options = replace(options, credentials_json=text, credentials_file=file)
    return replace(options, project=fields.get("project") or options.project)


def _hide(text: str | None) -> None:
    """Mask a key in logs, as a whole and in its parts."""
    if text is None:
        return
    mask_secret(text)
    try:
        found = json.loads(text)
    except ValueError:
        return
    for name in ("private_key", "private_key_id", "refresh_token", "client_secret"):
        if isinstance(found, dict) and isinstance(found.get(name), str):
            mask_secret(found[name])
