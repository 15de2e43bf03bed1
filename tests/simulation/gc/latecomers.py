"""Objects appearing in their slice after its last listing by optimized runs: only a clean run finds them."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import FormatError
from dredge.xid import descending_time

OTHERS = frozenset({"client", "server"})


@dataclass
class Latecomers:
    margin: timedelta = timedelta.max  # how long runs list a slice again (`slice_margin_hours`)
    addresses: set[str] = field(default_factory=set)  # of those that are there, relative to the namespace

    def on_put(self, address: str, role: str, when: datetime) -> None:
        """An object was put; later runs learn of an object restored by a run at any time."""
        self.addresses.discard(address)
        _, name, *_ = address.split("/")
        with suppress(FormatError):
            if role in OTHERS and when - descending_time(name) > self.margin:
                self.addresses.add(address)
