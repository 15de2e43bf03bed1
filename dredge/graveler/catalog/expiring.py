"""Records that are kept for a while only, and tell by their key when they were made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dredge.errors import FormatError
from dredge.kv import PredicateFailedError, Store


def expire_rows(
    kv: Store, partition: bytes, prefix: bytes, made_at: Callable[[str], datetime], before: datetime
) -> int:
    """Remove the records below a prefix that were made before a moment; one whose time cannot be told stays.

    Args:
        kv: the store.
        partition: of the records.
        prefix: of their keys.
        made_at: tells the time from the rest of a key; raises FormatError when it cannot.
        before: the moment.

    Returns:
        How many went.
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
