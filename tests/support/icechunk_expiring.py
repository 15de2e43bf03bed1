"""Expirations by threshold and flags."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dredge.icechunk.expiration import apply
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.in_place import Applied

_OF_THE_CALL = ("approved_digest", "lease", "options")


def expire(uri: str, threshold: datetime, **settings: Any) -> Applied:
    """Plan and apply an expiration."""
    call = {name: settings.pop(name) for name in _OF_THE_CALL if name in settings}
    return apply.expire(uri, Expiration(threshold=threshold.isoformat(), **settings), **call)
