"""URIs of Azure Blob Storage: which account, which container, which prefix.

    https://<account>.blob.core.windows.net/<container>/<path>      as lakeFS writes namespaces and addresses
    http://127.0.0.1:10000/<account>/<container>/<path>             an emulator: hosts without a domain name
    abfss://<container>@<account>.dfs.core.windows.net/<path>       as Spark writes the same places (wasbs too)
    az://<container>/<path>                                         with the account of the options

Source: lakeFS, pkg/block/azure/adapter.go (ResolveBlobURLInfoFromURL); Hadoop's Azure documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dredge.errors import ConfigError
from dredge.storage.azure.options import AzureOptions
from dredge.storage.schemes import canonical_parts, has_no_domain

_SIGNED = re.compile(r"[?&]sig=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Container:
    """A container.

    Attributes:
        account: storage account.
        name: of the container.
        endpoint: URL of the account by the URI, without a slash at its end.
    """

    account: str
    name: str
    endpoint: str

    @property
    def url(self) -> str:
        """URL of the container."""
        return f"{self.endpoint}/{self.name}"


def split_uri(scheme: str, rest: str, options: AzureOptions) -> tuple[Container, str]:
    """Split a URI into its container and the path behind it, which is taken literally.

    Args:
        scheme: in lower case.
        rest: what stands behind `://`.
        options: whose account stands for that of `az://`.

    Raises:
        ConfigError: it names no container, or carries a secret.
    """
    if _SIGNED.search(rest):
        raise ConfigError("a URI of Azure must not carry a SAS token (sig=…); give it in the connection")
    if scheme in {"az", "azure"}:
        return _of_the_account(rest, options)
    plain = "http" if scheme == "http" else "https"
    host, _, path = canonical_parts(scheme, rest)[1].partition("/")
    if "@" in host or not host:
        raise ConfigError(f"{scheme}:// is not followed by a plain host name, or names no container")
    if has_no_domain(host):
        account, _, path = path.partition("/")
        endpoint = f"{plain}://{host}/{account}"
    else:
        account = host.partition(".")[0]
        endpoint = f"{plain}://{host}"
    name, _, path = path.partition("/")
    if not account or not name:
        raise ConfigError(f"{endpoint} names no container; write https://<account>.blob.…/<container>/<path>")
    return Container(account, name, endpoint), path


def _of_the_account(rest: str, options: AzureOptions) -> tuple[Container, str]:
    name, _, path = rest.partition("/")
    if not name or not options.account:
        raise ConfigError(
            "az://<container>/… needs a container and the account it is in (AZURE_STORAGE_ACCOUNT)"
        )
    endpoint = options.endpoint_url or f"https://{options.account}.blob.core.windows.net"
    return Container(options.account, name, endpoint.rstrip("/")), path


def container_of(url: str) -> Container:
    """Read the URL of a container back, as `Container.url` wrote it."""
    scheme, _, rest = url.partition("://")
    return split_uri(scheme, rest, AzureOptions())[0]
