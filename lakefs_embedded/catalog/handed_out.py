"""Handed-out addresses, not linked yet (profile `design`).

    <repository partition>   link-addresses/<signed address>   LinkAddressData

A record exists from handing out until linking: the server removing it may link the address, once. As in profile
`lakefs` the age of an address is that of its xid, compared with the clock of the checking server. A scan removes
records too old to link.

Source: design "Uncommitted garbage collector", [Get/Link]PhysicalAddress; the message of servers before 1.0.
"""

from __future__ import annotations

from datetime import datetime

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from lakefs_embedded.catalog.expiring import expire_rows
from lakefs_embedded.catalog.signing import handed_out_at
from lakefs_embedded.errors import LinkAddressError
from lakefs_embedded.kv import PredicateFailedError, Store

PREFIX = b"link-addresses/"


class HandedOut:
    """The tracked addresses of all repositories."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def track(self, repository: Repository, signed: str) -> None:
        """Record a signed address before it is handed out."""
        self._kv.set(repository.partition, _key(signed), _value(signed))

    def consume(self, repository: Repository, signed: str) -> None:
        """Use up an address; of several concurrent calls one succeeds, the others raise LinkAddressError."""
        try:
            self._kv.delete_if(repository.partition, _key(signed), _value(signed))
        except PredicateFailedError:
            raise LinkAddressError("link address not found: link address invalid") from None

    def expire(self, repository: Repository, before: datetime) -> int:
        """Remove addresses older than a time, and return their number."""
        return expire_rows(self._kv, repository.partition, PREFIX, handed_out_at, before)


def _key(signed: str) -> bytes:
    return PREFIX + signed.encode("utf-8", "surrogateescape")


def _value(signed: str) -> bytes:
    return messages.encode(messages.LinkAddressData(address=signed))
