"""Which proxy a request to lakeFS or S3 goes through, as the environment says.

botocore alone passes over networks in NO_PROXY, and lakeFS's SDK reads no such variable.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import (  # type: ignore[attr-defined]
    getproxies,
    getproxies_environment,
    proxy_bypass_environment,
)


def proxies_for(url: str) -> dict[str, str]:
    """Give the proxy of a URL, by its scheme; nothing where it is asked directly.

    NO_PROXY may name hosts, domains, addresses and networks (`10.0.0.0/8`), or `*`.
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
    """Give some proxy that the environment names, where it names one."""
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
