"""Words of other libraries, made fit for a log: one line, no signatures, no credentials."""

from __future__ import annotations

import re
from typing import Any

from dredge.causes import CERTIFICATE, is_certificate

_SECRET = re.compile(
    r"(?i)((?:[a-z-]*(?:signature|credential|token|secret|password)[a-z_-]*|sig|upload_id|authorization|accesskeyid)"
    r"\s*[=:]\s*)[^&\s,;\"']+"
)
_USERINFO = re.compile(r"//(?:[^/@\s]+|[^/@\s:]+:[^@\s]+)@")
_MAX_CHARS = 400


def redact(text: str) -> str:
    """Take the first line of a message, without a server's XML and anything that looks like a secret."""
    line = " ".join(text.strip().split("\n", 1)[0].split("<?xml", 1)[0].split()).rstrip(": ")
    return _USERINFO.sub("//…@", _SECRET.sub(r"\1…", line))[:_MAX_CHARS]


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
