"""Words of other libraries, made fit for a log: one line, no signatures, no credentials."""

from __future__ import annotations

import re

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
