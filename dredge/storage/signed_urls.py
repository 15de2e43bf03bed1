"""URLs that let others read or write one object of a store for a while, without its credentials."""

from __future__ import annotations

import re
from typing import Protocol, runtime_checkable
from urllib.parse import quote


@runtime_checkable
class UrlSigner(Protocol):
    """A store that signs URLs. Nothing is asked of the store: the object need not exist."""

    def presign_get(self, key: str, expires_seconds: int, filename: str = "") -> str:
        """Sign a URL to GET an object from.

        Args:
            key: of the object.
            expires_seconds: how long the URL is valid.
            filename: name under which browsers save the object; "" leaves that to them.
        """

    def presign_put(self, key: str, expires_seconds: int) -> str:
        """Sign a URL to PUT an object to; the client may send any content type."""


def attachment(filename: str) -> str:
    """A Content-Disposition that names a file (RFC 6266); encoded where the name is more than a plain word."""
    if re.fullmatch(r"[A-Za-z0-9!#$&+.^_`|~-]+", filename):
        return f"attachment; filename={filename}"
    if filename.isascii() and filename.isprintable():
        escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
        return f'attachment; filename="{escaped}"'
    return "attachment; filename*=utf-8''" + quote(filename, safe="", errors="replace")
