"""Connections to servers and stores: plain URLs, keys, certificate authorities, and proxies.

A password that is not percent-encoded moves into another part of a URL (`/ # ? @ [`). So a URL of a user is accepted as
a whole or refused, and no message repeats it.

Only botocore supports networks in NO_PROXY, and lakeFS's SDK reads no such variable.
"""

import ipaddress
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import (  # type: ignore[attr-defined]
    getproxies,
    getproxies_environment,
    proxy_bypass_environment,
)

from dredge.errors import ConfigError

_PLAIN = re.compile(
    r"(?P<server>https?://(?:\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?)(?P<path>/[^?#@\s]*)?", re.IGNORECASE
)


def check_server_url(url: str, setting: str, example: str) -> str:
    """Check the URL of a server; returns scheme, host and port, which messages may show."""
    found = _PLAIN.fullmatch(url)
    if found is None:
        raise ConfigError(
            f"{setting} must be a plain URL such as {example}, and must not carry credentials: give those in fields of"
            " their own. Nothing was changed."
        )
    return found["server"]


def check_key(key: str | None, setting: str) -> None:
    """Check that an HTTP library can send a key: its errors repeat invalid keys. Raises ConfigError if it has a line
    break, a space at an end, or characters outside of ASCII."""
    if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
        raise ConfigError(
            f"{setting} has a line break, a space at an end, or a character outside of ASCII, so it was not copied"
            " right. Nothing was changed."
        )


def ca_bundles(env: Mapping[str, str]) -> list[str]:
    """Return the PEM files with certificate authorities in an environment, that of S3 first."""
    names = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
    return list(dict.fromkeys(env[name] for name in names if env.get(name)))


def check_ca_bundle(path: str | None, service: str) -> None:
    """Check that a file with certificate authorities can be used."""
    if path is not None:
        _load_bundle(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), path, service)


def tls_context(paths: Sequence[str], service: str) -> ssl.SSLContext:
    """Return a context that trusts the certificate authorities of the machine and of some PEM files.

    Clients share it: reading the authorities takes 25 ms of CPU, more than the requests of a short run.
    """
    machine = os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")
    return _tls_context(tuple((path, _modified(path)) for path in paths), machine, service)


@lru_cache(maxsize=16)
def _tls_context(
    files: tuple[tuple[str, int], ...], _machine: tuple[str, str], service: str
) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for path, _ in files:
        _load_bundle(context, path, service)
    return context


def _modified(path: str) -> int:
    """Modification time of a file, so that a renewed file is read again; 0 if it cannot be read."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _load_bundle(context: ssl.SSLContext, path: str, service: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the file with certificate authorities for {service}, {path!r}, cannot be used"
            f" ({type(error).__name__}): it must be a PEM file that this process can read, and it is named in the"
            " connection or in REQUESTS_CA_BUNDLE, AWS_CA_BUNDLE or SSL_CERT_FILE. Nothing was changed."
        ) from None


def proxies_for(url: str) -> dict[str, str]:
    """Return the proxy of a URL by its scheme; {} without a proxy.

    NO_PROXY may have hosts, domains, addresses and networks (`10.0.0.0/8`), or `*`.
    """
    target = urlsplit(url)
    found = getproxies()
    proxy = found.get(target.scheme) or found.get("all")
    if not proxy or _is_passed_by(target.hostname or "", target.netloc, found):
        return {}
    return {target.scheme: proxy if "://" in proxy else f"http://{proxy}"}


def is_here(url: str) -> bool:
    """Whether a URL is of this machine."""
    host = (urlsplit(url).hostname or "").lower()
    return host in ("localhost", "::1") or host.startswith("127.")


def any_proxy() -> str | None:
    """Return one of the proxies in the environment; None without one."""
    found = getproxies_environment()
    return next((value for name, value in found.items() if name != "no"), None)


def _is_passed_by(host: str, place: str, found: dict[str, str]) -> bool:
    if proxy_bypass_environment(place, found):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in _networks(found.get("no", "")))


def _networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    networks = []
    for item in text.split(","):
        try:
            networks.append(ipaddress.ip_network(item.strip().strip("[]"), strict=False))
        except ValueError:
            continue  # a name
    return networks
