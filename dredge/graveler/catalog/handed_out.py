"""Addresses that were handed out and not linked yet (profile `design`).

    <repository partition>   link-addresses/<signed address>   LinkAddressData

A record is there from handing out until linking: whoever removes it may link, and nobody else. The time is
the xid's inside the address, as in profile `lakefs`, so an address that was never linked needs no clock but
that of the server that looks. Records that are too old to link are removed by a scan.

Source: design "Uncommitted garbage collector", [Get/Link]PhysicalAddress; the message is that of servers
before 1.0.
"""

from __future__ import annotations

from datetime import datetime

from dredge.graveler import messages
from dredge.graveler.catalog.expiring import expire_rows
from dredge.graveler.catalog.signing import handed_out_at
from dredge.graveler.errors import LinkAddressError
from dredge.graveler.refs.records import Repository
from dredge.kv import PredicateFailedError, Store

PREFIX = b"link-addresses/"


class HandedOut:
    """The tracked addresses of all repositories.

    Args:
        kv: where they are.
    """

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def track(self, repository: Repository, signed: str) -> None:
        """Write down a signed address before anybody gets it."""
        self._kv.set(repository.partition, _key(signed), _value(signed))

    def consume(self, repository: Repository, signed: str) -> None:
        """Use an address up; of several calls at once one succeeds.

        Raises:
            LinkAddressError: 400, it was used, or it expired, or it was never handed out.
        """
        try:
            self._kv.delete_if(repository.partition, _key(signed), _value(signed))
        except PredicateFailedError:
            raise LinkAddressError("link address not found: link address invalid") from None

    def expire(self, repository: Repository, before: datetime) -> int:
        """Remove addresses handed out before a moment; one whose time cannot be told stays.

        Returns:
            How many went.
        """
        return expire_rows(self._kv, repository.partition, PREFIX, handed_out_at, before)


def _key(signed: str) -> bytes:
    return PREFIX + signed.encode("utf-8", "surrogateescape")


def _value(signed: str) -> bytes:
    return messages.encode(messages.LinkAddressData(address=signed))
