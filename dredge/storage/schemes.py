"""The kinds of object stores, by the scheme of their URIs.

Used to parse URIs, to compare storage namespaces, and to resolve lakeFS's physical addresses. A new kind of store is a
line here, one in `dredge.storage.opening`, and one in the fixture of `tests/contract/conftest.py`.
"""

import re
from collections.abc import Mapping
from typing import Literal

type Driver = Literal["local", "s3", "azure", "gcs"]

#: Schemes that mean the same place, by the one they are compared as. Treating two places as one can only keep more.
SAME_PLACE: Mapping[str, str] = {
    "s3a": "s3",
    "s3n": "s3",
    "local": "file",
    "mem": "memory",
    "gcs": "gs",
    "abfs": "https",
    "abfss": "https",
    "wasb": "https",
    "wasbs": "https",
    "http": "https",
}

#: The driver of each scheme.
DRIVERS: dict[str, Driver] = {
    "file": "local",
    "local": "local",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "azure": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "wasb": "azure",
    "wasbs": "azure",
    "https": "azure",
    "http": "azure",
}

_WITHOUT_DOMAIN = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|\[[0-9a-fA-F:.]+\]|[^.]+")


def canonical_scheme(scheme: str) -> str:
    """The scheme for comparisons, in lower case."""
    lower = scheme.lower()
    return SAME_PLACE.get(lower, lower)


def canonical_parts(scheme: str, rest: str) -> tuple[str, str]:
    """Scheme and rest of a URI for comparisons.

    Azure has two spellings of one place, `https://account.blob…/container/path` and
    `abfss://container@account.dfs…/path`; host names have no case. Other text is not changed.
    """
    canonical = canonical_scheme(scheme)
    if canonical != "https":
        return canonical, rest
    host, slash, path = rest.partition("/")
    container, at, account = host.rpartition("@")
    if at and scheme.lower() not in {"http", "https"}:
        host, slash, path = account, "/", f"{container}/{path}"
    return canonical, _canonical_host(scheme, host) + slash + path


def _canonical_host(scheme: str, host: str) -> str:
    """A host without the default port of its scheme, and without a trailing dot."""
    name, _, port = host.rpartition(":")
    if not name or not port.isdecimal():
        name, port = host, ""
    if port == ("80" if scheme.lower() == "http" else "443"):
        port = ""
    plain = name.lower().rstrip(".").replace(".dfs.core.", ".blob.core.", 1)
    return f"{plain}:{port}" if port else plain


def served_parts(scheme: str, rest: str) -> tuple[str, str]:
    """Scheme and rest of the place that lakeFS serves for a URI: without text before an `@`, on Azure with only the
    account of a host with a domain, and without slashes before the key.

    lakeFS skips those slashes only on Azure. To AWS `/x` is another key than `x`; to MinIO it is the same.

    Source: lakeFS pkg/block/namespace.go (resolveRelative, resolveFull), pkg/block/s3/adapter.go
    (ExtractParamsFromQK),
    pkg/block/azure/adapter.go (ResolveBlobURLInfoFromURL)
    """
    canonical, rest = canonical_parts(scheme, rest)
    if canonical == "file":  # the rest is a path
        return canonical, rest
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    if canonical == "https" and not has_no_domain(host):
        host = host.partition(".")[0]
    return canonical, host + slash + path.lstrip("/")


def has_no_domain(host: str) -> bool:
    """Whether a host (with or without a port) is an address or a single name, such as an emulator's."""
    return _WITHOUT_DOMAIN.fullmatch(host.rpartition(":")[0] or host) is not None


def canonical_uri(uri: str) -> str:
    """The URI of a folder for comparisons, without a trailing slash."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri.rstrip("/")
    scheme, rest = canonical_parts(scheme, rest)
    return f"{scheme}://{rest.rstrip('/')}"
