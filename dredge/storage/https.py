"""HTTP sessions of `requests`, which the clients of Azure and Google use."""

from __future__ import annotations

from typing import Any

from dredge.causes import CERTIFICATE, is_certificate


def mount(session: Any, connections: int) -> None:
    """Give a session its pool of connections, and end at once where a certificate is not accepted: it stays so, and
    Azure's client would try again for minutes.

    Args:
        session: of `requests`.
        connections: size of the pool.
    """
    from requests.adapters import HTTPAdapter
    from requests.exceptions import SSLError

    class Adapter(HTTPAdapter):
        def send(self, request: Any, *args: Any, **more: Any) -> Any:
            try:
                return super().send(request, *args, **more)
            except SSLError as error:
                if not is_certificate(error):
                    raise
                server = str(request.url).partition("?")[0].split("/")[2].rpartition("@")[2]
                raise CERTIFICATE.error(f"{server}: {_reason(error)}") from None

    adapter = Adapter(pool_maxsize=connections)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)


def _reason(error: Exception) -> str:
    """OpenSSL's words, from inside those of `requests`."""
    words = str(error)
    start = words.find("certificate verify failed")
    return words[start:].partition(" (_ssl")[0] if start >= 0 else "the certificate is not accepted"
