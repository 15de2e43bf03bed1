"""Copies sharing the bytes of a staged object, recorded for garbage collection (profile `design`).

A rename is a copy and a deletion. A collector reading staged paths in order may read the new path before the copy and
the old path after the deletion, and so miss both. Therefore a copy is recorded first, and prepare reads these records
after all staged data:

    copy     write `copies/<xid>` → check again that the source is staged → stage the new path
    prepare  every branch's staged data → `copies/`

If prepare missed the source, the source was deleted before prepare read it, so the record was there before
prepare read `copies/`. The second check protects an address already found unreferenced by a running collection:
either its bytes were live after the record was written, or they are really copied.

    <repository partition>   copies/<xid of the copy>   Entry: the shared address, time of the copy

Records expire after `Settings.copy_expiry`; a prepare run is refused after half of it.

Source: design "Uncommitted garbage collector", Track copied objects in ref-store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from dredge.xid import ascending_time, new_xid
from lakefs_embedded.catalog.expiring import expire_rows
from lakefs_embedded.kv import Store

PREFIX = b"copies/"


@dataclass(frozen=True, slots=True)
class Copied:
    """One recorded copy: an ascending xid, the shared address, and the time of the copy."""

    id: str
    entry: messages.Entry


class Copies:
    """The tracked copies of all repositories."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def track(self, repository: Repository, address: str, now: datetime) -> str:
        """Record a copy before its address is shared; returns the record's id."""
        record = messages.Entry(
            address=address,
            address_type=messages.AddressType.RELATIVE,
            last_modified=messages.to_timestamp(now),
        )
        copy_id = new_xid(now)
        self._kv.set(repository.partition, _key(copy_id), messages.encode(record))
        return copy_id

    def forget(self, repository: Repository, copy_id: str) -> None:
        """Remove the record of a copy after a failure."""
        self._kv.delete(repository.partition, _key(copy_id))

    def scan(self, repository: Repository, start: str = "") -> Iterator[Copied]:
        """Copies in the order of their ids, from an id on. Raises FormatError for an unreadable record."""
        for row in self._kv.scan(repository.partition, _key(start)):
            if not row.key.startswith(PREFIX):
                return
            copy_id = row.key.removeprefix(PREFIX).decode("utf-8", "replace")
            yield Copied(copy_id, messages.decode(messages.Entry, row.value, f"tracked copy {copy_id}"))

    def expire(self, repository: Repository, before: datetime) -> int:
        """Remove copies older than a time, and return their number; records with an unreadable time stay."""
        return expire_rows(self._kv, repository.partition, PREFIX, ascending_time, before)


def _key(copy_id: str) -> bytes:
    return PREFIX + copy_id.encode()
