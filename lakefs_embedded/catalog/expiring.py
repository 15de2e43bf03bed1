"""Records that are kept for a limited time, and whose key says when they were made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dredge.errors import FormatError
from dredge.kv import PredicateFailedError, Store


def expire_rows(
    kv: Store, partition: bytes, prefix: bytes, made_at: Callable[[str], datetime], before: datetime
) -> int:
    """Remove the records below a prefix that were made before a time; one whose time cannot be read stays.

    Args:
        made_at: reads the time from the rest of a key; raises FormatError when it cannot.
        before: aware UTC.

    Returns:
        Number of records removed.
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
