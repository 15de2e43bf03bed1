"""Signatures on handed-out addresses.

    data/<slice>/<xid>,<signature>        the signed text is the object's key, comma and all

    signature = HMAC-SHA256(secret, JSON of repository, branch, path and the address before the comma),
                URL-safe base64 without padding, 43 characters

Nothing is stored: the signature proves the path, and the xid the time.

Source: lakeFS pkg/catalog/catalog.go (VerifyLinkAddress; behaviour only).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import datetime, timedelta

from dredge.errors import FormatError
from dredge.xid import ascending_time
from lakefs_embedded.errors import LinkAddressError

_SEPARATOR = ","
# Characters that Go's encoder escapes and Python's does not.
_GO_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def sign_address(secret: str, repository: str, branch: str, path: str, address: str) -> str:
    """Sign a new relative address, `data/<slice>/<xid>`, for one path. Returns the key to write to."""
    return f"{address}{_SEPARATOR}{_signature(secret, repository, branch, path, address)}"


def verify_address(
    secret: str, repository: str, branch: str, path: str, signed: str, *, now: datetime, expiry: timedelta
) -> None:
    """Refuse an address with a wrong signature, or older than `expiry`."""
    address, separator, signature = signed.partition(_SEPARATOR)
    if not separator:
        raise LinkAddressError("address is not signed: link address invalid")
    expected = _signature(secret, repository, branch, path, address)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape")):
        raise LinkAddressError("invalid address signature: invalid address")
    try:
        handed_out = handed_out_at(signed)
    except FormatError:
        raise LinkAddressError("malformed address: link address invalid") from None
    if now - handed_out > expiry:
        raise LinkAddressError("link address expired")


def handed_out_at(signed: str) -> datetime:
    """The creation time of an address, to the second. Raises FormatError if it has no xid."""
    return ascending_time(signed.partition(_SEPARATOR)[0].rpartition("/")[2])


def _signature(secret: str, repository: str, branch: str, path: str, address: str) -> str:
    members = {"Repository": repository, "Branch": branch, "Path": path, "PhysicalAddress": address}
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
    digest = hmac.new(secret.encode(), text.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
