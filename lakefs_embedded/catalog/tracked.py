"""Records with a limited life (profile `design`): addresses handed out and not linked yet, copies that share bytes.

    <repository partition>   link-addresses/<signed address>   LinkAddressData
                             copies/<xid of the copy>          Entry: the shared address, time of the copy

The record of an address exists from handing out until linking: the server removing it may link the address, once. As in
profile `lakefs` the age of an address is that of its xid, compared with the clock of the checking server. A scan
removes records too old to link.

A rename is a copy and a deletion. A collector reading staged paths in order may read the new path before the copy and
the old path after the deletion, and so miss both. Therefore a copy is recorded first, and prepare reads these records
after all staged data:

    copy     write `copies/<xid>` → check again that the source is staged → stage the new path
    prepare  every branch's staged data → `copies/`

If prepare missed the source, the source was deleted before prepare read it, so the record was there before
prepare read `copies/`. The second check protects an address already found unreferenced by a running collection:
either its bytes were live after the record was written, or they are really copied. Records expire after
`Settings.copy_expiry`; a prepare run is refused after half of it.

Source: design "Uncommitted garbage collector", [Get/Link]PhysicalAddress, Track copied objects in ref-store; the
message of servers before 1.0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import FormatError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from dredge.xid import ascending_time, new_xid
from lakefs_embedded.catalog.signing import handed_out_at
from lakefs_embedded.errors import LinkAddressError
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


ADDRESSES = b"link-addresses/"


class HandedOut:
    """The tracked addresses of all repositories."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def track(self, repository: Repository, signed: str) -> None:
        """Record a signed address before it is handed out."""
        self._kv.set(repository.partition, _address_key(signed), _address_value(signed))

    def consume(self, repository: Repository, signed: str) -> None:
        """Use up an address; of several concurrent calls one succeeds, the others raise LinkAddressError."""
        try:
            self._kv.delete_if(repository.partition, _address_key(signed), _address_value(signed))
        except PredicateFailedError:
            raise LinkAddressError("link address not found: link address invalid") from None

    def expire(self, repository: Repository, before: datetime) -> int:
        """Remove addresses older than a time, and return their number."""
        return expire_rows(self._kv, repository.partition, ADDRESSES, handed_out_at, before)


def _address_key(signed: str) -> bytes:
    return ADDRESSES + signed.encode("utf-8", "surrogateescape")


def _address_value(signed: str) -> bytes:
    return messages.encode(messages.LinkAddressData(address=signed))


COPIES = b"copies/"


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
        self._kv.set(repository.partition, _copy_key(copy_id), messages.encode(record))
        return copy_id

    def forget(self, repository: Repository, copy_id: str) -> None:
        """Remove the record of a copy after a failure."""
        self._kv.delete(repository.partition, _copy_key(copy_id))

    def scan(self, repository: Repository, start: str = "") -> Iterator[Copied]:
        """Copies in the order of their ids, from an id on. Raises FormatError for an unreadable record."""
        for row in self._kv.scan(repository.partition, _copy_key(start)):
            if not row.key.startswith(COPIES):
                return
            copy_id = row.key.removeprefix(COPIES).decode("utf-8", "replace")
            yield Copied(copy_id, messages.decode(messages.Entry, row.value, f"tracked copy {copy_id}"))

    def expire(self, repository: Repository, before: datetime) -> int:
        """Remove copies older than a time, and return their number; records with an unreadable time stay."""
        return expire_rows(self._kv, repository.partition, COPIES, ascending_time, before)


def _copy_key(copy_id: str) -> bytes:
    return COPIES + copy_id.encode()
