"""How to reach Azure Blob Storage: account, credentials, endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from dredge.connections import check_key, check_server_url
from dredge.errors import ConfigError

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
    """Settings of Azure Blob Storage; secrets never show in `repr`.

    Key and SAS token are used for the account they belong to and for no other; every other account is reached by the
    service principal, or by whatever identity the machine has (managed identity, workload identity, the CLI's login).

    Attributes:
        account: storage account that key, SAS token and endpoint belong to.
        key: of the account, base64.
        sas_token: without the question mark; must permit what is asked of it.
        endpoint_url: of the account, where it is not `https://<account>.blob.core.windows.net`: an emulator
            (`http://127.0.0.1:10000/devstoreaccount1`), a private endpoint.
        tenant_id: of a service principal.
        client_id: of a service principal; without a secret, of a managed identity.
        client_secret: of a service principal.
    """

    account: str | None = None
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.key or self.sas_token or self.endpoint_url) and not self.account:
            raise ConfigError(
                "a key, SAS token or endpoint of Azure belongs to one storage account; name it"
                " (AZURE_STORAGE_ACCOUNT). Nothing was touched."
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
        """Read the usual variables of Azure from an environment; single ones win over the connection string."""
        found = _of_connection_string(environ.get(_CONNECTION_STRING, ""))
        found |= {name: environ[variable] for name, variable in _ENV.items() if environ.get(variable)}
        if "sas_token" in found:
            found["sas_token"] = found["sas_token"].removeprefix("?")
        return cls(**found)

    def to_env(self) -> dict[str, str]:
        """Give the variables from which `from_env` makes these options in a child process, with secrets.

        Where an account or an identity is told, what belongs to it and is not told is empty: the child's own key is not
        taken beside another's token.
        """
        values = {_ENV[item.name]: getattr(self, item.name) for item in fields(self)}
        values[_CONNECTION_STRING] = None
        found: dict[str, str] = {}
        for group in (_OF_ACCOUNT, _OF_IDENTITY):
            if any(values[name] is not None for name in group):
                found |= {name: values[name] or "" for name in group}
        return found


def _of_connection_string(text: str) -> dict[str, str]:
    """What a connection string says; nothing for an empty one.

    Source: "Configure Azure Storage connection strings" of Azure's documentation.
    """
    if not text.strip():
        return {}
    pairs = [item.partition("=") for item in text.strip().rstrip(";").split(";")]
    said = {name.strip().lower(): value for name, _, value in pairs}
    if said.get("usedevelopmentstorage", "").lower() == "true":
        raise ConfigError("UseDevelopmentStorage=true names no account: write the emulator's settings out")
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
