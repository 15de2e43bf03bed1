"""URIs of stores as locations. The forms for Azure:

    https://<account>.blob.core.windows.net/<container>/<path>      as in lakeFS's namespaces and addresses
    http://127.0.0.1:10000/<account>/<container>/<path>             an emulator: hosts without a domain name
    abfss://<container>@<account>.dfs.core.windows.net/<path>       as in Spark (wasbs too)
    az://<container>/<path>                                         with the account of the options

Source: lakeFS, pkg/block/azure/adapter.go (ResolveBlobURLInfoFromURL); Hadoop's Azure documentation.
"""

import os
import re
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import ConfigError, DredgeError
from dredge.storage import schemes
from dredge.storage.options import AzureOptions, StorageOptions

_SIGNED = re.compile(r"[?&]sig=", re.IGNORECASE)


class Container(Struct, frozen=True):
    """A container; `endpoint` is the URL of its account, without a trailing slash."""

    account: str
    name: str
    endpoint: str

    @property
    def url(self) -> str:
        """URL of the container."""
        return f"{self.endpoint}/{self.name}"


def split_uri(scheme: str, rest: str, options: AzureOptions) -> tuple[Container, str]:
    """Split the URI of a container into container and literal path."""
    if _SIGNED.search(rest):
        raise ConfigError("a URI of Azure must not carry a SAS token (sig=…); give it in the connection")
    if scheme in {"az", "azure"}:
        return _of_the_account(rest, options)
    plain = "http" if scheme == "http" else "https"
    host, _, path = schemes.canonical_parts(scheme, rest)[1].partition("/")
    if "@" in host or not host:
        raise ConfigError(f"{scheme}:// is not followed by a plain host name, or names no container")
    if schemes.has_no_domain(host):
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
    """Parse a `Container.url`."""
    scheme, _, rest = url.partition("://")
    return split_uri(scheme, rest, AzureOptions())[0]


_LOCAL = f"{schemes.canonical_scheme('local')}://"
_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$", re.DOTALL)


class Location(Struct, frozen=True):
    """A parsed URI."""

    driver: schemes.Driver
    bucket: str  # name of an S3 or GCS bucket, or the URL of an Azure container; "" for local
    root: str  # key prefix without trailing slash ("" is the whole bucket), or the absolute folder for local
    uri: str  # the canonical form, without trailing slash


def below(location: Location, folder: str) -> Location:
    """The location of a folder below another."""
    root = f"{location.root}/{folder}" if location.root else folder
    return replace(location, root=root, uri=f"{location.uri}/{folder}")


def parse_uri(uri: str, options: StorageOptions) -> Location:
    """Parse a store's URI. The path is literal: no percent-decoding, no normalisation. `uri`: `s3://bucket/prefix` (or
    s3a, s3n), `file:///abs`, `local:///abs`, `local://name` (below `options.local_base`), an absolute path, `gs://…`,
    or a form of Azure (see the module)."""
    location = _parsed(uri, options)
    for driver, error in options.unknown:
        if driver == location.driver:
            raise error
    return location


def spelled(uri: str) -> str:
    """The URI of a folder in one spelling, without a trailing slash. Local folders have many (`//`, `/./`); links
    stay."""
    found = schemes.canonical_uri(uri)
    path = found.removeprefix(_LOCAL)
    if path == found:
        return found
    plain = os.path.normpath(f"{path}/").rstrip("/")
    return _LOCAL + (f"/{plain.lstrip('/')}" if plain.startswith("/") else plain)


def place_of(uri: str, options: StorageOptions | None = None) -> str:
    """The URI of a folder for comparisons: without differences of spelling, and without links between local folders. Of
    a glob only the spelling of its parts is unified. `options`: for `local://name` and paths; None if the URI belongs
    to another machine."""
    if options is not None:
        with suppress(DredgeError):
            uri = parse_uri(uri, options).uri
    place = spelled(uri)
    path = place.removeprefix(_LOCAL)
    return _LOCAL + os.path.realpath(path).rstrip("/") if path != place and os.path.isabs(path) else place


def _parsed(uri: str, options: StorageOptions) -> Location:
    match = _URI.match(uri)
    if match is None:
        if os.path.isabs(uri):
            return _local(uri)
        raise ConfigError(f"{uri!r} is neither a URI (s3://…, file:///…) nor an absolute path")
    scheme, rest = match[1].lower(), match[2]
    driver = schemes.DRIVERS.get(scheme)
    if driver == "local":
        if rest.startswith("/"):
            return _local(rest)
        if scheme == "local" and rest:
            if options.local_base is None:
                raise ConfigError(f"{uri!r} needs a base folder for local stores (DREDGE_LOCAL_BASE)")
            return _local(os.path.join(options.local_base, rest))
        raise ConfigError(f"{uri!r} must name an absolute folder, such as file:///data/lake")
    if driver == "azure":
        return _azure(scheme, rest, options)
    if driver is None:
        raise ConfigError(
            f"{uri!r}: no driver for {scheme}://; there are drivers for {', '.join(sorted(schemes.DRIVERS))}"
        )
    bucket, _, path = rest.partition("/")
    if not bucket:
        raise ConfigError(f"{uri!r} names no bucket")
    root = path.removesuffix("/")
    base = f"{schemes.canonical_scheme(scheme)}://{bucket}"
    return Location(driver, bucket, root, base + (f"/{root}" if root else ""))


def _local(path: str) -> Location:
    if "\0" in path or ".." in path.split("/"):
        raise ConfigError(f"{path!r} is not a plain absolute folder")
    root = os.path.normpath(os.path.abspath(path))
    return Location("local", "", root, f"file://{root}")


def _azure(scheme: str, rest: str, options: StorageOptions) -> Location:
    container, path = split_uri(scheme, rest, options.azure)
    root = path.removesuffix("/")
    return Location("azure", container.url, root, container.url + (f"/{root}" if root else ""))
