"""Records with a limited life, and their time of creation in the key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dredge.errors import FormatError
from lakefs_embedded.kv import PredicateFailedError, Store


def expire_rows(
    kv: Store, partition: bytes, prefix: bytes, made_at: Callable[[str], datetime], before: datetime
) -> int:
    """Remove records below a prefix older than a time, and return their number.

    Records with an unreadable time stay: `made_at` reads it from the rest of a key, or raises FormatError.
    """
    removed = 0
    for row in kv.scan(partition, prefix):
        if not row.key.startswith(prefix):
            break
        try:
            made = made_at(row.key.removeprefix(prefix).decode("utf-8", "replace"))
        except FormatError:
            continue
        if made >= before:
            continue
        try:
            kv.delete_if(partition, row.key, row.value)
        except PredicateFailedError:
            continue  # used, or removed by another server
        removed += 1
    return removed
