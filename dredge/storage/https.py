"""HTTP sessions of `requests` for the clients of Azure and Google; messages of libraries without secrets."""

import re
from typing import Any

from dredge.causes import CERTIFICATE, is_certificate

CONNECT_SECONDS = 10
READ_SECONDS = 60
_SECRET = re.compile(
    r"(?i)((?:[a-z-]*(?:signature|credential|token|secret|password)[a-z_-]*|sig|upload_id|authorization|accesskeyid)"
    r"\s*[=:]\s*)[^&\s,;\"']+"
)
_USERINFO = re.compile(r"//(?:[^/@\s]+|[^/@\s:]+:[^@\s]+)@")
_MAX_CHARS = 400


def redact(text: str) -> str:
    """The first line of a message, without XML and without text that looks like a secret."""
    line = " ".join(text.strip().split("\n", 1)[0].split("<?xml", 1)[0].split()).rstrip(": ")
    return _USERINFO.sub("//…@", _SECRET.sub(r"\1…", line))[:_MAX_CHARS]


def mount(session: Any, connections: int) -> None:
    """Give a session of `requests` a pool of connections, and errors for refused certificates without retries."""
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
    # The message of `requests` contains OpenSSL's.
    words = str(error)
    start = words.find("certificate verify failed")
    return words[start:].partition(" (_ssl")[0] if start >= 0 else "the certificate is not accepted"
