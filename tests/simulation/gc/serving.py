"""What servers have put into the store and are about to stage: an upload in parts is there before its entry is."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Serving:
    """Follows them by address.

    Attributes:
        put: when a server put an object there.
        promised: when it acknowledged that it is staged.
        given: seconds that runs give such an object, which are the grace; a server that takes longer breaks the promise
            by itself.
    """

    put: dict[str, float] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    given: float = 0.0

    def is_late(self, address: str, now: float) -> bool:
        """Whether a server took longer than it is given."""
        return now - self.put.get(address, now) > self.given

    def since(self, address: str, readable: float) -> float:
        """Since when an address had to be reckoned with: from when its server had it to stage, if it did so in time.

        Args:
            address: relative to the namespace.
            readable: since when it is readable without a gap.
        """
        put = self.put.get(address, readable)
        by_others = readable > self.promised.get(address, float("inf"))
        return readable if by_others or readable - put > self.given else min(put, readable)
