"""What came into its slice later than runs list that again: only a clean run finds it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import FormatError
from dredge.xid import descending_time

OTHERS = frozenset({"client", "server"})


@dataclass
class Latecomers:
    """Follows them by address."""

    margin: timedelta = timedelta.max  # how long runs list a slice again (`slice_margin_hours`)
    addresses: set[str] = field(default_factory=set)  # of those that are there, relative to the namespace

    def on_put(self, address: str, role: str, when: datetime) -> None:
        """Somebody put an object: what a run brings back it lets later runs know of, however late that is."""
        self.addresses.discard(address)
        _, name, *_ = address.split("/")
        with suppress(FormatError):
            if role in OTHERS and when - descending_time(name) > self.margin:
                self.addresses.add(address)
