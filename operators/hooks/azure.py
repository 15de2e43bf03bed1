"""What a connection of type ``wasb`` says about Azure Blob Storage.

Its fields are read here, so that Microsoft's provider (which brings dozens of Azure's clients) need not be installed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import mask_secret

from dredge.errors import ConfigError
from dredge.storage.options import AzureOptions

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONN_TYPE = "wasb"
_OLD_PREFIX = "extra__wasb__"
_NOT_TAKEN = ("workload_identity_tenant_id", "client_secret_auth_config")


def azure_options(connection: Connection, options: AzureOptions) -> AzureOptions:
    """Return the options that a connection describes; a credential in it replaces those of the environment.

    The fields are the provider's: host = account URL (or the account's name as login), password = key; extra
    ``connection_string``, ``sas_token``; ``tenant_id`` with login and password for a service principal;
    ``managed_identity_client_id``.

    :param connection: of type ``wasb``
    :param options: of the environment
    :raises ConfigError: the fields contradict each other, or ask for an identity that is not supported
    """
    fields = {
        name.removeprefix(_OLD_PREFIX): value for name, value in connection.extra_dejson.items() if value
    }
    refused = sorted(fields.keys() & set(_NOT_TAKEN))
    if refused:
        raise ConfigError(
            f"the Azure connection has {', '.join(refused)}, which Dredge does not support: give a key, a SAS token, a"
            " service principal, or leave the identity to the machine. Nothing was touched."
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
            raise ConfigError("the Azure connection has a key, but neither login nor host names its account")
        return replace(found, key=key)
    return _account(
        host, login, replace(options, client_id=fields.get("managed_identity_client_id") or options.client_id)
    )


def _with_sas(host: str, login: str | None, token: str) -> AzureOptions:
    """A SAS token alone, or behind the account's URL, as the provider takes both."""
    if token.startswith("https://"):
        host, _, token = token.partition("?")
    found = _account(host, login, AzureOptions())
    if found.account is None:
        raise ConfigError(
            "the Azure connection has a SAS token, but neither login nor host names its account"
        )
    return replace(found, sas_token=token.removeprefix("?"))


def _account(host: str, login: str | None, options: AzureOptions) -> AzureOptions:
    """Add the account, and the endpoint where the host tells one. A host without a dot is an account's name, as old
    connections have it; the path of an emulator's URL has the account."""
    parts = urlsplit(host if "://" in host else f"https://{host}")
    name, in_path = parts.hostname or "", parts.path.strip("/")
    if not in_path and "." not in name:
        return _of_account(login or name or options.account, options)
    endpoint = f"{parts.scheme}://{parts.netloc}".replace(".dfs.core.", ".blob.core.")
    found = _of_account(in_path or name.partition(".")[0], options)
    return replace(found, endpoint_url=f"{endpoint}/{in_path}" if in_path else endpoint)


def _of_account(account: str | None, options: AzureOptions) -> AzureOptions:
    """Name the account; key, token and endpoint of another one are dropped, and are not sent to it."""
    if account == options.account:
        return options
    return replace(options, account=account, key=None, sas_token=None, endpoint_url=None)
